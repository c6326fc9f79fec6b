"""DiLoCo without rounds: every delta is applied as it comes (Liu 2024, 2401.09135)."""

import msgspec

from paceline.codec_names import require_codec
from paceline.pace_specs.checks import (
    is_whole,
    require,
    require_every,
    require_outer,
    written,
)
from paceline.pace_specs.guards import Guards, options_of, refuse_guards

_NO_GRADIENT = {
    "old": "many steps have led to what would be trained again: use old=drop",
    "compensate": "a delta is no gradient",
}
_OUTER_LR, _OUTER_MOMENTUM, _DELAY = 0.7, 0.9, 4


class AsyncDiLoCo(msgspec.Struct, frozen=True, tag="async-diloco"):
    """Local steps, then a delta that the servers apply at once; nobody waits.

    Every delta moves the shared values by itself; momentum, which old deltas would lead
    astray, is refreshed and applied with every ``delay``-th one only (delayed Nesterov).

    Args:
        every: batches of the fastest trainer between two deltas.
        outer_lr: learning rate of the outer step.
        outer_momentum: its Nesterov momentum; 0: none.
        delay: deltas that make one step of momentum, and share one step's length: about as
            many as there are trainers.
        adapt: slower trainers take fewer batches, in proportion to their measured speed,
            so that deltas are equally old (dynamic local updates); else ``every``, too.
        codec: how deltas and values travel, see `paceline.codec_names`; None: as they are.
        guards: what keeps old, wild or early deltas from doing harm, see `Guards`.
    """

    every: int
    outer_lr: float = _OUTER_LR
    outer_momentum: float = _OUTER_MOMENTUM
    delay: int = _DELAY
    adapt: bool = True
    codec: str | None = None
    guards: Guards | None = None

    def __post_init__(self) -> None:
        require_every("async-diloco", self.every)
        require_outer("async-diloco", self.outer_lr, self.outer_momentum)
        require(
            is_whole(self.delay) and self.delay >= 1,
            f"async-diloco: delay is a number of deltas >= 1, got {self.delay!r}",
        )
        require(
            isinstance(self.adapt, bool),
            f"async-diloco: adapt is True or False, got {self.adapt!r}",
        )
        require_codec("async-diloco", self.codec)
        refuse_guards("async-diloco", self.guards, _NO_GRADIENT)

    def __str__(self) -> str:
        """As it is written on the command line."""
        usual = self.outer_momentum == _OUTER_MOMENTUM
        return written(
            f"async-diloco:{self.every}",
            lr=None if self.outer_lr == _OUTER_LR else self.outer_lr,
            momentum=None if usual else self.outer_momentum,
            delay=None if self.delay == _DELAY else self.delay,
            adapt=None if self.adapt else "no",
            codec=self.codec,
            **options_of(self.guards),
        )

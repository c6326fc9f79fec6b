"""How a trainer's tracked objects stand to the state that a server keeps of them.

Pure.
"""

from typing import final

from paceline.messages import (
    AskTracked,
    KeepTracked,
    Message,
    Ticked,
    TrackedKept,
    Waiting,
)
from paceline.trainer.asking import Act, Asking

_UNKNOWN = -1  # no number of a state: the objects may be as no other trainer has them
_KEPT_BITS = 24  # a number is an incarnation and a count, so that nobody has it twice


@final
class Tracking:
    """The number of the state that the objects were kept or loaded as, last.

    Attributes:
        is_wanted: the coordinator wants it kept before the next batch.
        number: 0 is the beginning.
        loads: how often a state was loaded into the objects.
    """

    def __init__(self) -> None:
        """As at the beginning."""
        self.is_wanted = False
        self.number = 0
        self.loads = 0
        self._num_kept = 0

    def forget(self) -> None:
        """A step was dropped: the objects may have moved with it, or not."""
        self.is_wanted = False
        self.number = _UNKNOWN

    def note(self, reply: Message) -> None:
        """The coordinator has answered; it may want the state."""
        self.is_wanted |= isinstance(reply, Ticked | Waiting) and reply.track

    def keep(self, asking: Asking, server: str, rounds: dict[int, int]) -> Act[None]:
        """Send the state to ``server``, then tell the coordinator, until both have it."""
        self.is_wanted = False
        self._num_kept += 1
        number = (asking.incarnation << _KEPT_BITS) + self._num_kept
        keep = KeepTracked(**asking.who(), number=number)
        yield from asking.ask_servers({server: keep})
        kept = TrackedKept(**asking.who(), number=number, rounds=rounds)
        yield from asking.ask(kept)
        self.number = number

    def load(self, asking: Asking, server: str, wanted: int | None) -> Act[None]:
        """Load the state that ``server`` keeps, unless the objects are in it."""
        if wanted is None or wanted == self.number:
            return
        if wanted != 0:
            ask = AskTracked(**asking.who(), number=wanted)
            yield from asking.ask_servers({server: ask})
        self.number = wanted
        self.loads += 1

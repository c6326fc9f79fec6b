"""Whether a loop has trained by steps, or its script never takes one.

::

    batches of two tasks or more, or all there are, and no step()    refused
    fewer                                                            a warning
    tables written to; a job that stops; a loop left early           nobody asks

What is accumulated and not stepped is pushed at the end of an epoch, so a trainer that had
fewer batches than the script takes to a step is right not to have stepped. Who had the
batches of several tasks has most likely forgotten it, and a plain loop would train nothing.

Pure.
"""

from typing import Final, Literal, NamedTuple, final

from paceline.ids import TaskKey
from paceline.messages import StageSpec

_WHAT: Final = (
    "no step() was called in this loop over session.batches, and this trainer was "
    "delivered {batches} batches"
)
_INSTEAD: Final = (
    "call step() of what share returned (optimizer = session.share(model, optimizer)) "
    "behind backward(); to look at data without training use session.evaluate or "
    "session.predict"
)


class Judged(NamedTuple):
    """What to do about a loop that comes to an end, and why."""

    verdict: Literal["fine", "warn", "refuse"]
    reason: str = ""


_FINE: Final = Judged("fine")


@final
class Steps:
    """Batches and steps of one loop of one trainer.

    Attributes:
        batches: delivered.
        steps: taken by the script.
    """

    def __init__(self, spec: StageSpec | None = None) -> None:
        """None yet, of a loop over this stage; without one nobody loops."""
        self._spec = spec
        self._tasks: set[TaskKey] = set()
        self.batches = self.steps = 0

    def deliver(self, key: TaskKey) -> None:
        """A batch of a task was delivered."""
        self.batches += 1
        self._tasks.add(key)

    def judge(self, *, is_over: bool) -> Judged:
        """What to do about it where an epoch is over for this trainer.

        Args:
            is_over: the loop is; otherwise there may be no work for it just now.
        """
        spec = self._spec
        if spec is None or self.steps or not self.batches:
            return _FINE
        what = _WHAT.format(batches=self.batches)
        is_last = is_over or max(key.epoch for key in self._tasks) == spec.epochs - 1
        is_all = spec.num_tasks() * spec.epochs == 1
        has_all = is_all and self.batches >= spec.num_batches(0)
        if is_last and (len(self._tasks) > 1 or has_all):
            return Judged("refuse", f"{what}: nothing was trained; {_INSTEAD}")
        if is_over or len(self._tasks) > 1:
            return Judged(
                "warn",
                f"{what}: what was accumulated is pushed at the end of the epoch, as if "
                f"stepped; if no step() is meant to come, {_INSTEAD}",
            )
        return _FINE

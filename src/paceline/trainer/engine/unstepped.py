"""Whether a loop has trained by steps, and by one for each batch that was taken for it.

::

    all batches of the loop, or more than 64 of several tasks, and no step()    refused
    fewer                                                                       a warning
    tables written to; a job that stops; a loop left early                      nobody asks

What is accumulated and not stepped is pushed at the end of an epoch, so a trainer that had
fewer batches than the script takes to a step is right not to have stepped: of small data a
task may be one batch, and a trainer has few of them. Who had all there are has forgotten
it, and so, most likely, has who had more than anybody accumulates: a plain loop would train
nothing.

The first step of a loop after two batches and the second one after one more, that is a
prefetcher that has not said so, or a script that has skipped the first batch. Of a
prefetcher the batch before the newest is in use; of the other one nobody holds it any more.

Pure.
"""

from typing import Final, Literal, NamedTuple, final

from paceline.ids import TaskKey
from paceline.messages.shared import StageSpec

MOST_ACCUMULATED: Final = 64  # batches of a trainer that may wait for one step

_WHAT: Final = (
    "no step() was called in this loop over session.batches, and this trainer was "
    "delivered {batches} batches"
)
_INSTEAD: Final = (
    "call step() of what share returned (optimizer = session.share(model, optimizer)) "
    "behind backward(); to look at data without training use session.evaluate or "
    "session.predict"
)
_FORGOTTEN: Final = (
    "{name!r} has gradients, and no step() of its optimizer was called in this loop, "
    "though others were: they are pushed at the end of the epoch, as if stepped; where "
    "that is not meant, let its model have none (requires_grad_(False), or zero_grad() of "
    "its optimizer behind each backward())"
)
_MAY_BE_AHEAD: Final = (
    "the first step() of this loop came after {batches} batches, and the second one after "
    "one more: a script that takes batches ahead of their steps has to say so, with "
    "session.batches(..., lookahead={ahead}); without it as many batches more count than "
    "were trained. Where a step is over several batches, or the first ones were skipped, "
    "all is well"
)


class Judged(NamedTuple):
    """What to do about a loop that comes to an end, and why."""

    verdict: Literal["fine", "warn", "refuse"]
    reason: str = ""


_FINE: Final = Judged("fine")


@final
class Steps:
    """Batches and steps of one loop of one trainer; without a stage nobody loops."""

    def __init__(self, spec: StageSpec | None = None) -> None:
        self._spec = spec
        self._tasks: set[TaskKey] = set()
        self._stepped_at: list[int] = []  # batches that were there at the first two steps
        self.batches = 0  # delivered
        self.parts: set[int] = set()  # of which the script has taken a step
        self.is_told = False  # both steps were taken that tell a prefetcher

    def deliver(self, key: TaskKey) -> None:
        """A batch of a task was delivered."""
        self.batches += 1
        self._tasks.add(key)

    def why_ahead(self) -> str | None:
        """What is to be said of a step over a batch, once there are two to tell by."""
        at = self._stepped_at
        if self.is_told or self.batches in at:
            return None
        at.append(self.batches)
        self.is_told = len(at) == 2
        if not self.is_told or at[0] < 2 or at[1] > at[0] + 1:
            return None
        return _MAY_BE_AHEAD.format(batches=at[0], ahead=at[0] - 1)

    def forgets(self, part: int, name: str) -> str | None:
        """What is to be said of a part's gradients that wait while others are stepped.

        No step has used them, and an epoch is over. ``name``: of one of its parameters.
        """
        if not self.parts or part in self.parts:
            return None
        return _FORGOTTEN.format(name=name)

    def judge(self, *, is_over: bool) -> Judged:
        """What to do about it where an epoch is over for this trainer.

        ``is_over``: the loop is; otherwise there may be no work for it just now.
        """
        spec = self._spec
        if spec is None or self.parts or not self.batches:
            return _FINE
        what = _WHAT.format(batches=self.batches)
        is_last = is_over or max(key.epoch for key in self._tasks) == spec.epochs - 1
        has_all = self.batches >= spec.num_batches_in_all()
        has_many = self.batches > MOST_ACCUMULATED and len(self._tasks) > 1
        if is_last and (has_all or has_many):
            return Judged("refuse", f"{what}: nothing was trained; {_INSTEAD}")
        if is_over or len(self._tasks) > 1:
            return Judged(
                "warn",
                f"{what}: what was accumulated is pushed at the end of the epoch, as if "
                f"stepped; if no step() is meant to come, {_INSTEAD}",
            )
        return _FINE

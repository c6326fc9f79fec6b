"""Batches in the user's hands ahead of their steps: `Session.batches(..., lookahead=k)`.

::

    handed        0 1 2 3 4        data, as the user takes them
    delivered     0 1 2            as for a loop without: in windows, awaiting their step
    ahead               3 4        of leases that are held; the trainer acts behind the user

So windows, rounds and leases are what they are without a prefetcher. When there is no work
left to lease, the user's iterator ends, and steps over what is in hand move the loop on.
Whatever comes instead of what is in the user's hands makes the script begin again.

Waits: for the coordinator and the data set, between batches. The thread of the user's
loop calls.
"""

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, final

from paceline.config import Pace
from paceline.errors import Preempted, UsageError
from paceline.pace.guards import trains_old_again
from paceline.pace.policy import (
    pushes_overlap,
    steps_locally,
    takes_turns,
    trains_late_again,
)
from paceline.trainer.engine import TrainerEngine
from paceline.trainer.holdings import Nothing, SharedPart
from paceline.trainer.loop.stages import SPENT, Cutting
from paceline.trainer.tensors import PartTensors
from paceline.trainer.verdicts import Batch

_OTHERS: Final = (
    "batches were taken ahead of their steps (lookahead={ahead}), and {what}: the script "
    "begins again"
)


def check_lookahead(
    lookahead: int, cutting: Cutting, processes: int, parts: Mapping[int, PartTensors]
) -> None:
    """Refuse to let batches be taken ahead where that cannot be kept apart from steps.

    Raises:
        UsageError: it cannot (so), and why.
    """
    paces = [one.pace for one in parts.values()]
    has_tables = any(one.tables for one in parts.values())
    why = None
    if lookahead < 0:
        why = f"it must be >= 0, got {lookahead}"
    elif not lookahead:
        return
    elif cutting.epochs > 1:
        why = "an epoch ends with its last step: make a loop of each epoch"
    elif processes > 1:
        why = f"a trainer of {processes} processes deals each step's batches among them"
    elif has_tables:
        why = "rows of tables and embeddings are those of the newest batch"
    elif going_on := [p for p in paces if _goes_on(p)]:
        what = "goes on while its pushes are under way"
        why = f"{going_on[0]} {what}; use sync, async or ssp"
    elif again := [p for p in paces if trains_late_again(p) or trains_old_again(p)]:
        what = "gives batches back to be trained again, before those in hand"
        why = f"{again[0]} {what}; use it without 'again'"
    if why is not None:
        raise UsageError(f"batches: lookahead={lookahead}: {why}")


def _goes_on(pace: Pace) -> bool:
    return steps_locally(pace) or takes_turns(pace) or pushes_overlap(pace)


def check_step(lookahead: int, parts: Sequence[SharedPart]) -> None:
    """Refuse a step that is not for one batch, where some are taken ahead.

    When nothing is left to take, a script steps over what it has in hand, and nobody sees
    how far it is but by its steps.

    Raises:
        UsageError: it is one over several batches, or over none.
    """
    waiting = [part.window.num_delivered() for part in parts if not part.forgotten]
    if not lookahead or not waiting:
        return
    if max(waiting) > 1:
        raise UsageError(
            f"step(): {max(waiting)} batches came since the last step of this part, with "
            f"lookahead={lookahead}: at the end of the data nothing tells how many of what "
            f"is in hand a step is for; take a step of every shared model for every batch "
            f"(larger batches, or the pace's push, instead of accumulating), or leave "
            f"lookahead out"
        )
    if max(waiting) == 0:
        raise UsageError(
            f"step() without a batch: with lookahead={lookahead} a batch has its step when "
            f"{lookahead} more were taken, and only one; say as many as the script holds"
        )


@final
class Hands:
    """What the user of one loop holds."""

    def __init__(
        self, carrier: TrainerEngine, read: Callable[[Batch], Any], lookahead: int
    ) -> None:
        """Nothing; ``lookahead``: batches that are taken ahead of their step."""
        self._carrier, self._read, self._lookahead = carrier, read, lookahead
        self._ahead: deque[Batch] = deque()  # handed out, and not delivered
        self._is_spent = False

    @property
    def num_ahead(self) -> int:
        """Batches in the user's hands that the trainer has not come to."""
        return len(self._ahead)

    def take(self, found: Batch) -> Any:  # noqa: ANN401  (the user's data)
        """The data of a batch that is delivered now; None if it was handed out before.

        Raises:
            Preempted: it is none that the user has or can be given.
        """
        if self._ahead and self._ahead[0] == found:
            return None
        if not self._ahead and not self._is_spent:
            return self._carrier.outlook.take(found)
        self._carrier.protocol.take_back(found)
        given = "they were given to others"
        raise self._again(given if self._ahead else "more work came at the end")

    def hand(self, data: Any) -> Generator[Any, None, None]:  # noqa: ANN401
        """A batch was delivered: it, and what comes ahead of the steps from here on."""
        if self._ahead:
            self._ahead.popleft()
        else:
            yield data
        while len(self._ahead) < self._lookahead and not self._is_spent:
            batch = self._find()
            if batch == "lost":
                raise self._again("what was in hand is lost")
            if batch == "spent":
                self._is_spent = True
                break
            coming = self._read(batch)
            self._ahead.append(batch)
            yield coming
        if self._is_spent:
            yield SPENT

    def _find(self) -> Batch | Nothing:
        """The batch that comes next, of a lease that is held or can be had now."""
        protocol, stage = self._carrier.protocol, self._carrier.protocol.stage
        assert stage is not None, "its loop is open"
        return self._carrier.run(protocol.find_ahead(stage, len(self._ahead)))

    def _again(self, what: str) -> Preempted:
        """The script begins again, by raising this."""
        why = _OTHERS.format(ahead=self._lookahead, what=what)
        self._carrier.protocol.must_begin_again = why
        return Preempted(why)

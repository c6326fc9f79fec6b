"""What must hold in every simulated run, whatever went wrong.

* exactly once: at the end every slot of every part has applied every batch of every
  epoch once;
* evaluations count every task once, and come to the same value for every script;
* round atomicity: a round of a timeline has the same contributions on all servers;
* one verdict: a batch has its effect on all slots of a part, or on none;
* no gap: a window is, on every slot, either new or a duplicate, whoever replays it;
* queue conservation: no task lost, none in two places (`CoordinatorState.validate`);
* replay equals live: the journal restores the very state of the coordinator that died.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import final

from paceline.ids import TaskKey, Window
from paceline.messages.data import Push
from paceline.messages.shared import StageSpec

Values = dict[int, bytes]  # {stage: what scripts were told that it came to}


class Violation(AssertionError):  # noqa: N818  (what is found, not what went wrong)
    """A promise was broken; the message says which, where and how."""


@final
class RoundHistory:
    """Rounds as servers applied them."""

    def __init__(self, *, is_all: bool = True) -> None:
        """No round yet; ``is_all``: nothing is applied but rounds."""
        self.is_all = is_all
        self._rounds: dict[tuple[int, int, int], frozenset[Window]] = {}

    def applied(
        self, timeline: int, part: int, number: int, windows: frozenset[Window]
    ) -> None:
        """A server applied a round.

        Raises:
            Violation: another server applied other contributions in it.
        """
        agreed = self._rounds.setdefault((timeline, part, number), windows)
        if agreed != windows:
            raise Violation(
                f"round {number} of part {part} on timeline {timeline} was {agreed} on one "
                f"server and {windows} on another"
            )

    def num_rounds(self) -> int:
        """Rounds that were applied anywhere."""
        return len(self._rounds)


def check_steps(
    pushes: Sequence[Push], number: int, parts: Collection[int], *, is_all: bool = True
) -> None:
    """What the user tracks (here, its own count of steps) is in line with the round.

    With several parts, a death between two of them makes one count a round more.

    Args:
        pushes: contributions to a round of one part.
        number: of the round.
        parts: all parts of the job.
        is_all: nothing is applied but rounds, so that their number is that of steps.

    Raises:
        Violation: a trainer contributes with objects of another moment than the others'.
    """
    stepped = {push.incarnation: t["steps"] for push in pushes for t in push.hyper}
    is_in_line = set(stepped.values()) <= {number - 1} or len(parts) > 1 or not is_all
    if len(set(stepped.values())) > 1 or not is_in_line:
        raise Violation(f"to round {number} come {stepped}: {{incarnation: steps}}")


def check_told(values: Values, stage: int, value: bytes) -> None:
    """A script is told what an evaluation came to: what every other was told.

    Raises:
        Violation: another script was told another value.
    """
    agreed = values.setdefault(stage, value)
    if agreed != value:
        raise Violation(f"stage {stage} came to {agreed!r}, and then to {value!r}")


def check_evaluated(evaluations: Sequence[StageSpec], values: Values) -> None:
    """Every evaluation counts every batch of every task once.

    Raises:
        Violation: a batch is missing, or counts twice.
    """
    for spec in evaluations:
        counts = {task: spec.num_batches(task) for task in range(spec.num_tasks())}
        if values.get(spec.stage) != encode_counts(counts):
            raise Violation(f"stage {spec.stage} came to {values.get(spec.stage)!r}")


def encode_counts(counts: dict[int, int]) -> bytes:
    """The value of a simulated evaluation: {task: its batches}, in order."""
    return " ".join(f"{task}:{count}" for task, count in sorted(counts.items())).encode()


def check_one_verdict(
    part: int, voided: Mapping[int, Collection[tuple[TaskKey, int]]]
) -> None:
    """What has no effect on one slot of a part has none on any.

    Args:
        part: whose slots they are.
        voided: ``{slot: batches that were passed over there}``.

    Raises:
        Violation: a push was half applied.
    """
    agreed: set[tuple[TaskKey, int]] = set().union(*voided.values())
    for slot, found in voided.items():
        if half := sorted(agreed - set(found)):
            key, batch = half[0]
            raise Violation(
                f"batch {batch} of {key} is void in part {part}, and slot {slot} applied it"
            )


def check_exactly_once(
    spec: StageSpec, slot: int, applied: Counter[tuple[TaskKey, int]]
) -> None:
    """A slot has the effect of every batch once.

    Raises:
        Violation: a batch is missing or was applied more than once.
    """
    for epoch in range(spec.epochs):
        for task in range(spec.num_tasks()):
            for batch in range(spec.num_batches(task)):
                times = applied[TaskKey(spec.stage, epoch, task), batch]
                if times != 1:
                    raise Violation(
                        f"slot {slot} applied batch {batch} of task {task} in epoch "
                        f"{epoch} {times} times"
                    )
    expected = spec.epochs * sum(spec.num_batches(t) for t in range(spec.num_tasks()))
    if sum(applied.values()) != expected:
        raise Violation(f"slot {slot} applied {sum(applied.values())}, not {expected}")

"""What the pace of a part says, once: a trainer asks these many times a step.

Pure.
"""

from typing import NamedTuple

from paceline.messages.shared import PartSpec
from paceline.pace.fragments import round_overlap, takes_turns
from paceline.pace.guards import bounds_ages, trains_old_again
from paceline.pace.policy import (
    carries_over,
    pull_from,
    push_from,
    pushes_overlap,
    staleness_of,
    steps_locally,
    trains_late_again,
    updates_in_rounds,
)


class Rules(NamedTuple):
    """Of one part, until its pace changes."""

    is_sync: bool  # it is updated in rounds
    staleness: int | None  # by how much clocks are bounded
    is_bounded: bool  # whether they are
    pushes_overlap: bool  # the trainer computes on while its last push is under way
    round_overlap: int  # batches that it goes on for while a round of its own is
    takes_turns: bool  # pushes are due by turns, as those of fragments are
    spans_tasks: bool  # a window goes on behind the end of a task
    carries_over: bool  # a push whose round has closed without it is in the next
    reads_round: bool  # the round that a push will be in brings the next values
    bounds_ages: bool  # a push may be too old to be applied
    trains_late_again: bool  # batches of a late push go back to the queue
    trains_old_again: bool  # the same of one that is too old
    has_values: bool  # there is something to pull, or to wait for by pulling
    push_from: int  # stepped batches from which a window is pushed
    pull_from: float  # batches since a pull from which there is another one
    pull_from_pushed: float  # the same, just behind a push


def rules_of(spec: PartSpec) -> Rules:
    """What a part's pace says."""
    pace, bound = spec.pace, staleness_of(spec.pace)
    is_sync, is_carried = updates_in_rounds(pace), carries_over(pace)
    # Of tables alone nothing is to be pulled, but rounds are waited for, and clocks and
    # versions are those of what was pulled last.
    is_free = not (is_sync or bound is not None or bounds_ages(pace))
    return Rules(
        is_sync,
        bound,
        bound is not None,
        pushes_overlap(pace),
        round_overlap(pace),
        takes_turns(pace),
        steps_locally(pace),
        is_carried,
        is_sync and not is_carried,  # else it is not known yet which round that is
        bounds_ages(pace),
        trains_late_again(pace),
        trains_old_again(pace),
        bool(spec.parameters) or not is_free,
        push_from(pace),
        pull_from(pace, has_pushed=False),
        pull_from(pace, has_pushed=True),
    )

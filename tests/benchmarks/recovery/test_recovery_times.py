"""Recovery times are read from moments as they are told."""

import pytest

from benchmarks.recovery.times import (
    held_by,
    leased_again,
    longest_gap,
    stall,
    trains_again,
)

STEPS = [0.0, 1.0, 2.0, 5.0, 6.0]


def granted(t: float, task: int, trainer: str) -> dict[str, object]:
    return {
        "t": t,
        "event": "LeaseGranted",
        "lease": {"key": [0, 0, task]},
        "trainer": trainer,
    }


def happened(t: float, event: str, task: int) -> dict[str, object]:
    return {"t": t, "event": event, "key": [0, 0, task]}


@pytest.mark.parametrize(
    ("start", "stop", "gap"),
    [
        (2.5, 4.0, 3.0),  # the step that was open when the span began, and ended after it
        (0.5, 2.0, 3.0),
        (0.5, 1.9, 1.0),
        (5.5, 9.0, 1.0),
        (6.5, 9.0, None),  # no step ends any more: nothing is known
        (-1.0, 0.5, None),  # nobody had stepped yet
    ],
)
def test_the_longest_gap_is_between_steps_that_the_span_touches(
    start: float, stop: float, gap: float | None
) -> None:
    assert longest_gap(STEPS, start, stop) == gap


def test_the_stall_is_that_of_the_others() -> None:
    steps = {"trainer-0": [0.0, 9.0], "trainer-1": STEPS, "trainer-2": [0.0, 2.5, 4.0]}
    assert stall(steps, "trainer-0", killed=2.2, watched_s=1.0) == 3.0
    assert stall({"trainer-0": STEPS}, "trainer-0", 2.2, 1.0) is None


def test_a_trainer_holds_what_it_was_granted_and_has_not_ended() -> None:
    events = [
        granted(1.0, 7, "trainer-0"),
        granted(1.5, 8, "trainer-1"),
        happened(2.0, "TaskDone", 7),
        granted(2.5, 9, "trainer-0"),
        granted(3.5, 10, "trainer-0"),
    ]
    assert held_by(events, "trainer-0", 3.0) == {(0, 0, 9)}


def test_work_is_leased_again_when_all_of_it_is() -> None:
    events = [
        granted(1.0, 7, "trainer-0"),
        granted(1.1, 8, "trainer-0"),
        granted(3.25, 7, "trainer-1"),
        granted(3.5, 8, "trainer-0"),
    ]
    assert leased_again(events, "trainer-0", 3.0) == 0.5
    assert leased_again(events[:3], "trainer-0", 3.0) is None


def test_a_job_trains_again_with_the_first_step_behind_the_return() -> None:
    events = [{"t": 1.0, "event": "MarksRestored"}, {"t": 4.0, "event": "MarksRestored"}]
    assert trains_again(events, [3.1, 4.5, 4.7], killed=3.0) == 1.5
    assert trains_again(events[:1], [3.1, 4.5], killed=3.0) is None

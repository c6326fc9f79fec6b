"""How long a run took to its first batch, and how fast it trained."""

import msgspec
import pytest

from paceline.ids import COORDINATOR
from paceline.messages.watching import JobStatus, ProcessStatus, QueueStatus, Trained
from paceline.watch.summary import RunTime

OPEN, OVER = QueueStatus(1, 1, 2, 0, 0), QueueStatus(0, 0, 4, 0, 0)


def told(trained: Trained | None, records: int = 0, pid: int = 1) -> JobStatus:
    """What the coordinator of a process says in the middle of a loop."""
    return JobStatus(
        state="running",
        queue=OPEN,
        pace="sync",
        processes=(
            ProcessStatus("coordinator", COORDINATOR, 0, pid, "", "", "", "", 0, 0),
        ),
        epochs=0,
        records=records,
        tasks_done=0,
        tasks_failed=0,
        steps=0,
        metrics={},
        total_records=1000,
        timeline=0,
        cut=0,
        counters={},
        trained=trained,
    )


def test_a_run_without_a_batch_has_neither_start_nor_rate() -> None:
    time = RunTime(100.0)
    time.note(told(None), 105.0)
    assert time.start_s is None
    assert time.records_per_second(0) == 0.0


def test_the_start_is_not_in_the_rate() -> None:
    time = RunTime(100.0)
    for now in (112.5, 114.0):  # the first lease was granted at 112
        time.note(told(Trained(now - 112.0, now - 112.0, 0)), now)
    assert time.start_s == pytest.approx(12.0)
    assert time.records_per_second(8_000) == pytest.approx(4_000.0)


def test_records_of_runs_before_are_not_in_the_rate() -> None:
    time = RunTime(100.0)
    time.note(told(Trained(2.0, 2.0, 90_000)), 104.0)
    assert time.records_per_second(91_000) == pytest.approx(500.0)


def test_a_coordinator_that_has_restarted_costs_the_loop_the_time_it_was_away() -> None:
    time = RunTime(0.0)
    time.note(told(Trained(4.0, 4.0, 0)), 10.0)
    time.note(told(None, pid=2), 12.0)
    time.note(told(Trained(1.0, 1.0, 300), pid=2), 14.0)  # away from 10 to 13
    assert time.start_s == pytest.approx(6.0)
    assert time.records_per_second(800) == pytest.approx(100.0)


def test_a_coordinator_that_has_restarted_between_two_loops_costs_nothing() -> None:
    time = RunTime(0.0)
    over = msgspec.structs.replace(told(Trained(4.0, 4.0, 0)), queue=OVER)
    time.note(over, 10.0)
    time.note(told(Trained(1.0, 1.0, 300), pid=2), 14.0)
    assert time.records_per_second(500) == pytest.approx(100.0)

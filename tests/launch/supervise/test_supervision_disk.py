"""A full disk: how long the run waits, and that nobody is killed meanwhile."""

from msgspec.structs import replace

from paceline.errors import DISK_EXIT_CODE
from paceline.launch.supervise.run_events import (
    Decision,
    EndInterrupted,
    Finish,
    GiveUp,
    Kill,
    RunInterrupted,
    Start,
)
from paceline.launch.supervise.supervision import NO_SPACE_S
from paceline.messages.watching import JobStatus, LauncherOrders, Trouble
from tests.launch.supervised import Job, roles, status

FULL = "waiting for space on the disk of /job: the disk is full"
NO_CUT = "waits for the last checkpoint: /cuts: the disk is full"


def held(waited_s: float) -> JobStatus:
    return replace(status(), trouble=Trouble("journal", "/job", FULL, waited_s))


def without_cut(waited_s: float | None) -> LauncherOrders:
    trouble = Trouble("checkpoint", "/cuts", NO_CUT, waited_s)
    return LauncherOrders(status=replace(status(), trouble=trouble))


def test_a_run_waits_for_space_as_long_as_it_lasts_and_kills_nobody() -> None:
    job = Job(trainers=2)
    job.answer(1.0, members=job.pids)
    job.die("trainer-1", 1.5, code=0)
    decisions: list[Decision] = []
    for second in range(2, 3600):
        decisions += job.apply(held(second - 2.0), float(second))
    assert decisions == []
    assert job.answer(3600.5, members=job.pids) == []


def test_a_run_whose_trainers_are_done_needs_no_space_to_end() -> None:
    job = Job(trainers=2)
    job.answer(1.0, members=job.pids)
    job.die("trainer-0", 2.0, code=0)
    assert job.apply(held(0.1), 3.0) == []
    job.die("trainer-1", 4.0, code=0)
    assert job.apply(held(2.0), 5.0) == [Finish(held(2.0))]


def test_no_silence_is_counted_from_before_the_disk_was_full() -> None:
    job = Job()
    job.answer(1.0, members=job.pids)
    job.apply(held(0.0), 2.0)
    job.apply(held(100.0), 102.0)
    decisions = [d for s in range(10) for d in job.answer(103.0 + s)]
    assert roles(decisions, Kill) == [], "a server has two time-outs to be a member again"


def test_a_run_that_may_not_wait_for_longer_ends_to_be_resumed() -> None:
    job = Job(disk_wait_s=600.0)
    job.answer(1.0)
    assert job.apply(held(599.0), 601.0) == []
    (decision,) = job.apply(held(600.0), 602.0)
    assert decision == GiveUp(
        None, f"{FULL}, longer than --disk-wait (600 s)", is_by_disk=True
    )


def test_a_checkpoint_is_waited_for_as_long_if_work_waits_for_it() -> None:
    job = Job(disk_wait_s=60.0)
    assert job.apply(without_cut(None), 1.0) == [], "training goes on"
    assert job.apply(without_cut(59.0), 60.0) == []
    (decision,) = job.apply(without_cut(60.0), 61.0)
    assert isinstance(decision, GiveUp)
    assert NO_CUT in decision.reason


def test_a_job_that_fails_for_its_first_checkpoint_says_how_to_go_on() -> None:
    job = Job()
    why = "the first checkpoint cannot be written: /cuts: the disk is full"
    orders = without_cut(None)
    orders = replace(orders, status=replace(orders.status, error=why))
    assert job.apply(orders, 1.0) == [GiveUp(None, why, is_by_disk=True)]


def test_ctrl_c_on_a_full_disk_ends_at_once_since_nothing_can_be_saved() -> None:
    job = Job(disk_wait_s=0.5)
    job.answer(1.0)
    job.apply(held(0.1), 2.0)
    job.apply(RunInterrupted(), 2.1)
    (decision,) = job.apply(held(9.0), 2.2)
    assert decision == EndInterrupted(f"interrupted; {FULL}")


def test_ctrl_c_without_a_checkpoint_says_what_was_missing() -> None:
    job = Job()
    job.apply(without_cut(3.0), 2.0)
    job.apply(RunInterrupted(), 3.0)
    job.die("trainer-0", 4.0, code=75)
    ends = [
        decision.reason
        for second in range(70)
        for decision in job.apply(without_cut(3.0 + second), 5.0 + second)
        if isinstance(decision, EndInterrupted)
    ]
    assert ends[0] == f"interrupted; no cut could be taken in 60 s: {NO_CUT}"


def test_a_coordinator_without_space_from_the_start_ends_the_run() -> None:
    (decision,) = Job().die("coordinator", 1.0, code=DISK_EXIT_CODE)
    assert decision == GiveUp(
        "coordinator", "the job folder cannot be written", is_by_disk=True
    )


def test_a_coordinator_that_finds_no_space_later_is_started_again_and_again() -> None:
    job = Job(disk_wait_s=60.0)
    job.answer(1.0)
    job.die("coordinator", 2.0)  # whatever killed it
    for second in range(3, 60, 5):
        assert job.die("coordinator", float(second), code=DISK_EXIT_CODE) == []
        assert roles(job.apply(None, second + NO_SPACE_S), Start) == ["coordinator"]
    (decision,) = job.die("coordinator", 64.0, code=DISK_EXIT_CODE)
    assert isinstance(decision, GiveUp), "longer than --disk-wait"


def test_times_without_space_that_are_over_do_not_add_up() -> None:
    job = Job(disk_wait_s=10.0)
    job.answer(1.0)
    job.die("coordinator", 2.0, code=DISK_EXIT_CODE)
    job.apply(None, 2.0 + NO_SPACE_S)
    job.answer(8.0)
    assert job.die("coordinator", 50.0, code=DISK_EXIT_CODE) == []

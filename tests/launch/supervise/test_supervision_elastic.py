"""Trainers that come and go: preempted, scaled up and down, interrupted."""

from paceline.launch.supervise.run_events import (
    CoordinatorSilent,
    EndInterrupted,
    Finish,
    Kill,
    NoRoom,
    Retire,
    RunInterrupted,
    Start,
)
from tests.launch.supervised import Job, roles


def test_a_preempted_trainer_comes_back_after_a_second_however_often() -> None:
    job = Job()
    for now in range(0, 100, 10):
        assert job.die("trainer-0", now, code=75) == []
        assert job.apply(None, now + 0.9) == []
        assert roles(job.apply(None, now + 1.0), Start) == ["trainer-0"]


def test_a_job_that_is_scaled_up_gets_the_trainers_with_the_next_numbers() -> None:
    job = Job(trainers=2)

    assert roles(job.answer(1.0, trainers=4), Start) == ["trainer-2", "trainer-3"]
    assert job.answer(1.2, trainers=4) == []
    assert job.supervision.restarts["trainer"] == 0


def test_a_job_that_is_scaled_down_tells_its_last_trainers_to_leave_once() -> None:
    job = Job(trainers=3)

    assert roles(job.answer(1.0, trainers=1), Retire) == ["trainer-2", "trainer-1"]
    assert job.answer(1.2, trainers=1) == []
    assert job.die("trainer-2", 1.3, code=75) == []
    assert job.die("trainer-1", 1.3) == []
    assert job.apply(None, 100.0) == []
    assert job.answer(101.0, records=1) == []


def test_a_scaled_down_job_is_over_when_those_who_stayed_are_done() -> None:
    job = Job(trainers=2)
    job.answer(1.0, trainers=1)
    job.die("trainer-1", 1.3, code=75)
    job.die("trainer-0", 2.0, code=0)

    assert [type(d) for d in job.answer(2.1, trainers=1)] == [Finish]


def test_a_number_that_was_given_up_is_given_again() -> None:
    job = Job(trainers=2)
    job.answer(1.0, trainers=1)
    job.die("trainer-1", 1.3, code=75)

    assert roles(job.answer(2.0, trainers=2), Start) == ["trainer-1"]


def test_nobody_is_started_for_a_job_whose_trainers_are_finishing() -> None:
    job = Job(trainers=2)
    job.die("trainer-0", 1.0, code=0)

    assert job.answer(2.0, trainers=5) == []


def test_one_who_was_told_to_leave_and_stays_is_killed_in_the_end() -> None:
    job = Job(trainers=2)
    job.answer(1.0, trainers=1)
    assert job.apply(None, 600.9) == []

    assert roles(job.apply(None, 601.0), Kill) == ["trainer-1"]
    assert job.die("trainer-1", 601.1) == []


def test_an_interrupted_run_ends_when_trainers_have_left_and_a_cut_is_taken() -> None:
    job = Job(trainers=2)
    job.answer(0.5)

    assert roles(job.apply(RunInterrupted(), 1.0), Retire) == ["trainer-0", "trainer-1"]
    assert job.apply(RunInterrupted(), 1.1) == []
    job.die("trainer-0", 1.2, code=75)
    assert not job.supervision.is_saving
    job.die("trainer-1", 1.3, code=-15)
    assert job.supervision.is_saving
    assert job.answer(1.4) == []
    (decision,) = job.answer(1.6, is_saved=True)
    assert isinstance(decision, EndInterrupted)


def test_a_trainer_that_waits_for_its_restart_is_not_started_after_an_interrupt() -> None:
    job = Job()
    job.die("trainer-0", 1.0, code=75)
    job.apply(RunInterrupted(), 1.1)

    assert job.supervision.is_saving
    assert job.apply(None, 50.0) == []


def test_a_server_that_dies_while_an_interrupted_run_saves_comes_back() -> None:
    job = Job()
    job.apply(RunInterrupted(), 1.0)
    job.die("trainer-0", 1.1, code=75)

    assert roles(job.die("server-0", 1.2), Start) == ["server-0"]


def test_trainers_that_do_not_leave_an_interrupted_run_are_killed() -> None:
    job = Job()
    job.apply(RunInterrupted(), 1.0)
    assert job.apply(None, 15.9) == []

    assert roles(job.apply(None, 16.0), Kill) == ["trainer-0"]


def test_an_interrupted_run_ends_without_a_cut_when_none_can_be_taken() -> None:
    job = Job()
    job.apply(RunInterrupted(), 1.0)
    job.die("trainer-0", 2.0, code=75)
    assert job.answer(61.9) == []

    (decision,) = job.answer(62.0)
    assert isinstance(decision, EndInterrupted)


def test_an_interrupted_run_whose_coordinator_never_spoke_is_not_waited_for() -> None:
    job = Job()
    job.apply(RunInterrupted(), 1.0)
    job.die("trainer-0", 1.1, code=-15)
    assert job.apply(CoordinatorSilent(), 1.2) == []
    assert job.apply(CoordinatorSilent(), 1.3) == []

    (decision,) = job.apply(CoordinatorSilent(), 1.4)
    assert isinstance(decision, EndInterrupted)


def test_who_finds_no_room_is_looked_for_again_every_second_and_restarts_once() -> None:
    job = Job(servers=2)
    job.die("server-1", 1.0)
    for now in range(2, 9):
        assert job.apply(NoRoom("server-1"), now) == []
        assert job.apply(None, now + 0.9) == []
        assert roles(job.apply(None, now + 1.0), Start) == ["server-1"]
    assert job.supervision.restarts["server"] == 1


def test_a_job_is_over_without_those_who_found_no_room() -> None:
    job = Job(trainers=2)
    job.apply(NoRoom("trainer-1"), 1.0)

    job.die("trainer-0", 2.0, code=0)

    assert job.apply(None, 3.0) == []
    assert roles(job.answer(3.1), Start) == []
    assert [type(d) for d in job.answer(3.2)] == [Finish]


def test_a_job_that_is_scaled_down_gives_up_those_without_room_first() -> None:
    job = Job(trainers=3)
    job.apply(NoRoom("trainer-0"), 1.0)

    assert roles(job.answer(1.2, trainers=2), Retire) == []
    assert job.apply(None, 2.0) == []

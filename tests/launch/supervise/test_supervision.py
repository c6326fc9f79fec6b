"""What is restarted, what is killed, when a job is given up."""

import pytest

from paceline.launch.supervise.run_events import (
    CoordinatorSilent,
    Finish,
    GiveUp,
    HostLost,
    Kill,
    RunInterrupted,
    Start,
)
from paceline.launch.supervise.supervision import CRASHES, Supervision
from paceline.messages.watching import Exited
from tests.launch.supervised import TIMEOUT_S, Job, roles


def test_everything_is_started_at_the_beginning() -> None:
    supervision = Supervision(["server-0", "server-1"], ["trainer-0"], TIMEOUT_S)

    decisions = supervision.apply(None, 0.0)

    expected = ["coordinator", "server-0", "server-1", "trainer-0"]
    assert roles(decisions, Start) == expected
    assert supervision.restarts == {"coordinator": 0, "server": 0, "trainer": 0}


@pytest.mark.parametrize("role", ["coordinator", "server-0", "trainer-0"])
def test_a_killed_process_is_started_again_at_once(role: str) -> None:
    job = Job()

    assert roles(job.die(role, 1.0), Start) == [role]
    assert job.supervision.restarts[role.split("-")[0]] == 1


@pytest.mark.parametrize("role", ["coordinator", "server-0"])
def test_coordinator_and_servers_are_restarted_even_after_a_clean_exit(role: str) -> None:
    assert roles(Job().die(role, 1.0, code=0), Start) == [role]


def test_a_trainer_that_exits_cleanly_is_done() -> None:
    job = Job(trainers=2)

    assert job.die("trainer-0", 1.0, code=0) == []
    assert job.supervision.restarts["trainer"] == 0


def test_wrong_usage_fails_the_job_at_once() -> None:
    job = Job(trainers=2)

    (decision,) = job.die("trainer-1", 1.0, code=2)

    assert isinstance(decision, GiveUp)
    assert decision.role == "trainer-1"
    assert "exit code 2 (wrong usage)" in decision.reason


def test_wrong_usage_of_a_trainer_that_is_told_to_leave_anyway_fails_nothing() -> None:
    job = Job()
    job.apply(RunInterrupted(), 1.0)

    assert roles(job.die("trainer-0", 2.0, code=2), GiveUp) == []


def test_the_second_death_in_a_row_waits_before_the_restart() -> None:
    job = Job()
    job.die("server-0", 1.0)

    assert job.die("server-0", 2.0) == []
    assert job.apply(None, 2.05) == []
    assert roles(job.apply(None, 2.1), Start) == ["server-0"]


def test_a_death_after_three_restarts_in_a_row_without_progress_fails_the_job() -> None:
    job = Job()
    job.answer(0.5, records=100)
    for now in (1.0, 2.0, 4.0):
        assert roles(job.die("server-0", now), GiveUp) == []
        job.answer(now + 0.9, records=100)

    (decision,) = job.die("server-0", 6.0)

    assert isinstance(decision, GiveUp)
    assert decision.role == "server-0"
    assert "4 times in a row" in decision.reason


def test_a_server_that_fails_after_each_return_to_a_cut_fails_the_job_in_the_end() -> None:
    job = Job()
    given_up: list[object] = []
    for second in range(20):  # to a cut at 100, up to 500, and again
        job.answer(float(second), records=100)
        job.answer(second + 0.4, records=500)
        given_up += roles(job.die("server-0", second + 0.5, code=1), GiveUp)
        if given_up:
            break
        job.apply(None, second + 0.9)

    assert second == CRASHES
    assert given_up == ["server-0"]


def test_one_that_is_killed_from_outside_as_often_does_not() -> None:
    job = Job()
    for second in range(50):
        job.answer(float(second), records=100)
        job.answer(second + 0.4, records=500)
        assert roles(job.die("server-0", second + 0.5), GiveUp) == []
        job.apply(None, second + 0.9)


def test_deaths_while_records_advance_are_forgiven_for_ever() -> None:
    job = Job()
    for second in range(50):
        job.answer(float(second), records=second)
        assert roles(job.die("trainer-0", second + 0.5), Start) == ["trainer-0"]


def test_deaths_while_tasks_of_an_evaluation_are_done_are_forgiven_too() -> None:
    job = Job()
    for second in range(50):
        job.answer(float(second), records=100, tasks_done=second)
        assert roles(job.die("trainer-0", second + 0.5), Start) == ["trainer-0"]


def test_records_that_rise_again_after_a_return_to_a_cut_are_progress() -> None:
    job = Job()
    job.answer(0.5, records=1000)
    for second in range(1, 20):
        assert roles(job.die("server-0", second), Start) == ["server-0"]
        job.answer(second + 0.2, records=400)
        job.answer(second + 0.4, records=500)


def test_deaths_of_different_roles_are_not_in_a_row() -> None:
    job = Job(servers=2)
    for role in ("server-0", "server-1", "trainer-0", "coordinator"):
        for now in (1.0, 2.0):
            assert roles(job.die(role, now), GiveUp) == []
            job.apply(None, now + 0.5)


def test_a_replaced_server_is_killed_once_and_started_again() -> None:
    job = Job()
    pid = job.pids["server-0"]

    assert roles(job.answer(5.0, replace={"server-0": pid}), Kill) == ["server-0"]
    assert job.answer(5.2, replace={"server-0": pid}) == []
    assert roles(job.die("server-0", 5.3), Start) == ["server-0"]


@pytest.mark.parametrize("role", ["server-0", "trainer-0"])
def test_who_is_cut_off_is_killed_and_starts_elsewhere_while_the_work_goes_on(
    role: str,
) -> None:
    job = Job()
    for now in range(1, 9):
        replace = {role: job.pids[role]}
        killed = job.answer(float(now), now, replace=replace, unreached={role: "no way"})
        assert killed == [Kill(role, "no way")]
        [start] = job.die(role, now + 0.5)
        assert isinstance(start, Start)
        assert (start.role, start.is_elsewhere) == (role, True)
    job.answer(19.0, 30)
    [again] = job.die(role, 20.0)
    assert isinstance(again, Start)
    assert not again.is_elsewhere, "it died of itself"


def test_who_is_cut_off_on_a_host_that_is_lost_starts_elsewhere() -> None:
    job = Job()
    pid = job.pids["trainer-0"]
    job.answer(1.0, replace={"trainer-0": pid}, unreached={"trainer-0": "no way"})
    [start] = job.apply(HostLost("host-1", (Exited("trainer-0", pid, -9),)), 2.0)
    assert isinstance(start, Start)
    assert start.role == "trainer-0"


def test_an_order_to_replace_a_gone_process_spares_its_successor() -> None:
    job = Job()
    gone = job.pids["server-0"]
    job.die("server-0", 1.0)

    assert job.answer(1.2, replace={"server-0": gone}) == []


def test_a_silent_coordinator_is_killed_after_one_timeout() -> None:
    job = Job()
    job.answer(1.0)
    for now in (2.0, 3.0, 10.9):
        assert job.apply(CoordinatorSilent(), now) == []

    assert roles(job.apply(CoordinatorSilent(), 11.0), Kill) == ["coordinator"]


def test_a_launcher_that_was_stopped_itself_does_not_blame_the_coordinator() -> None:
    job = Job()
    job.answer(1.0)

    assert job.apply(CoordinatorSilent(), 1000.0) == []
    assert job.answer(1000.1) == []


def test_a_coordinator_that_works_may_take_its_time_to_start() -> None:
    job = Job()
    for second in range(900):
        assert job.apply(CoordinatorSilent(second // 9), float(second)) == []

    for now in (900.0, 900.9):
        assert job.apply(CoordinatorSilent(99), now) == []
    assert roles(job.apply(CoordinatorSilent(99), 901.0), Kill) == ["coordinator"]


def test_a_coordinator_that_is_frozen_at_its_start_is_killed_after_one_timeout() -> None:
    job = Job()
    for second in range(10):
        assert job.apply(CoordinatorSilent(7 if second else 6), float(second)) == []
    assert job.apply(CoordinatorSilent(7), 10.9) == []

    [kill] = job.apply(CoordinatorSilent(7), 11.0)

    assert kill == Kill("coordinator", "it has done nothing for 10.0 s, and never answered")


def test_a_coordinator_that_starts_for_an_hour_is_killed() -> None:
    job = Job()
    for second in range(3600):
        assert job.apply(CoordinatorSilent(second), float(second)) == []

    assert roles(job.apply(CoordinatorSilent(3600), 3600.0), Kill) == ["coordinator"]


def test_the_successor_of_a_frozen_coordinator_has_its_own_time() -> None:
    job = Job()
    for second in range(10):
        job.apply(CoordinatorSilent(7), float(second))
    assert roles(job.apply(CoordinatorSilent(7), 10.0), Kill) == ["coordinator"]
    assert roles(job.die("coordinator", 10.1), Start) == ["coordinator"]
    for second in range(11, 20):
        assert job.apply(CoordinatorSilent(3), float(second)) == []

    assert roles(job.apply(CoordinatorSilent(3), 21.0), Kill) == ["coordinator"]


def test_the_job_finishes_with_the_first_answer_after_the_last_trainer() -> None:
    job = Job(trainers=2)
    job.die("trainer-0", 1.0, code=0)
    assert job.answer(1.1) == []
    assert job.die("trainer-1", 2.0, code=0) == []

    (decision,) = job.answer(2.1, records=7)

    assert isinstance(decision, Finish)
    assert decision.status.records == 7


def test_a_coordinator_that_dies_after_the_last_trainer_still_has_the_last_word() -> None:
    job = Job()
    job.die("trainer-0", 1.0, code=0)

    assert roles(job.die("coordinator", 1.1), Start) == ["coordinator"]
    assert job.die("server-0", 1.2) == []
    assert [type(d) for d in job.answer(3.0)] == [Finish]


def test_a_job_that_cannot_go_on_is_given_up_with_the_coordinators_reason() -> None:
    (decision,) = Job().answer(1.0, error="no part is left")

    assert decision == GiveUp(None, "no part is left")


def test_a_lingering_trainer_is_killed_and_counts_as_done() -> None:
    job = Job(trainers=2)
    job.answer(0.5, members={"trainer-1": job.pids["trainer-1"]})
    job.die("trainer-0", 1.0, code=0)
    job.answer(2.0, members={})
    assert job.apply(None, 20.9) == []

    assert roles(job.apply(None, 21.0), Kill) == ["trainer-1"]
    assert job.die("trainer-1", 21.1) == []
    assert [type(d) for d in job.answer(21.2)] == [Finish]


def test_a_trainer_that_still_counts_is_never_lingering() -> None:
    job = Job(trainers=2)
    job.die("trainer-0", 1.0, code=0)
    members = {"trainer-1": job.pids["trainer-1"]}

    assert job.answer(500.0, members=members) == []
    assert job.apply(None, 1000.0) == []


def test_a_server_that_the_coordinator_never_counts_is_killed() -> None:
    job = Job()
    members = {"server-0": job.pids["server-0"]}
    killed: list[str] = []
    for tenth in range(10, 230):
        counted = members if tenth < 20 else {}
        killed += roles(job.answer(tenth / 10, members=counted), Kill)
    assert killed == ["server-0"]


def test_a_lost_host_is_one_event_and_no_death_counts() -> None:
    job = Job(servers=2, trainers=2)
    for now in range(1, 9):
        exits = tuple(
            Exited(role, job.pids[role], -9) for role in ("server-1", "trainer-0")
        )
        decisions = job.apply(HostLost("host-1", exits), float(now))
        assert roles(decisions, Start) == ["server-1", "trainer-0"]
        assert not roles(decisions, GiveUp)
    assert {start.reason for start in decisions if isinstance(start, Start)} == {
        "host-1 is lost"
    }

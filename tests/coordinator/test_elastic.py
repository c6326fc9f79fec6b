"""The job grows and shrinks, is saved before an early end, and gives up what kills."""

from typing import Any

import msgspec
import pytest

from paceline.config import Async
from paceline.coordinator.durable.outcomes import Scaled, TaskFailed, TasksCrashed
from paceline.coordinator.ledgers.effects import Happened
from paceline.coordinator.state import Asked, Disconnected
from paceline.data.order import records_at
from paceline.messages.shared import Done, Refusal
from paceline.messages.trainer import (
    AskLease,
    AskRecords,
    Granted,
    Leave,
    Records,
    StageOver,
)
from paceline.messages.values import ClaimOnce
from paceline.messages.watching import Exited, LauncherReport, Scale

LAUNCHER, OPERATOR = "launcher", "operator"
CRASH = Exited("trainer-0", 1, -11, is_crash=True)


@pytest.fixture
def job(make_job: Any) -> Any:
    """Two servers, one trainer that has asked for work and steps freely."""
    job = make_job(pace=Async())
    job.open("trainer-0")
    return job


def orders(job: Any, **report: Any) -> Any:
    return job.get(LAUNCHER, LauncherReport(**report))


# ---------------------------------------------------------------- how many trainers


def test_the_launcher_is_told_how_many_trainers_are_wanted(job: Any) -> None:
    assert orders(job).trainers == 0, "nobody has changed it"
    assert job.get(OPERATOR, Scale(trainers=5)) == Done()
    assert orders(job).trainers == 5
    job.restart()
    assert orders(job).trainers == 5


def test_roles_without_a_machine_are_part_of_how_the_job_stands(job: Any) -> None:
    full = "waiting for 3 s to start trainer-1: no machine has room for more"
    assert orders(job, no_room=full).status.no_room == full
    assert not orders(job).status.no_room


def test_a_trainer_learns_how_many_there_are_or_are_waited_for(make_job: Any) -> None:
    job = make_job(trainers=2, pace=Async())
    job.serve()

    def trainers() -> int:
        answer = job.get("trainer-0", AskRecords(**job.who("trainer-0")))
        assert isinstance(answer, Records)
        return answer.trainers

    job.join("trainer-0")
    assert trainers() == 2, "it begins with two"
    job.open("trainer-0", "trainer-1")
    job.join("trainer-2")
    assert trainers() == 3
    job.get("trainer-2", Leave(**job.who("trainer-2"), is_done=False))
    assert trainers() == 2


def test_scaling_twice_to_the_same_number_is_once(job: Any) -> None:
    job.get(OPERATOR, Scale(trainers=3))
    job.get(OPERATOR, Scale(trainers=3))
    assert [o for o in job.outcomes if isinstance(o, Scaled)] == [Scaled(3)]


@pytest.mark.parametrize(("most", "asked"), [(0, 0), (4, 1), (4, 5)])
def test_a_number_out_of_range_is_refused_with_the_range(
    make_job: Any, most: int, asked: int
) -> None:
    job = make_job(trainers=2)
    job.config = msgspec.structs.replace(job.config, most_trainers=most)
    job.restart()
    answer = job.get(OPERATOR, Scale(trainers=asked))
    assert isinstance(answer, Refusal)
    expected = "2 to 4" if most else "1 to 100000"
    assert expected in answer.text


def test_a_job_scaled_down_before_it_began_waits_for_no_more(make_job: Any) -> None:
    job = make_job(trainers=3)
    job.open("trainer-0")
    assert job.lease("trainer-0") is None
    job.get(OPERATOR, Scale(trainers=1))
    assert job.lease("trainer-0").key.task == 0


# ---------------------------------------------------------------- an early end


def test_an_early_end_waits_for_a_cut_that_began_after_it_was_asked_for(job: Any) -> None:
    lease = job.lease("trainer-0")
    job.tick("trainer-0", lease, 0, 1)
    before = job.state.durable.cut.cut
    first = job.get(LAUNCHER, LauncherReport(saving=True))
    assert not first.is_saved
    job.serve()
    saved = orders(job, saving=True)
    assert saved.is_saved
    assert saved.status.cut == before + 1
    assert orders(job, saving=True).status.cut == before + 1, "one cut is enough"


def test_a_job_that_has_nothing_yet_is_saved_as_it_is(make_job: Any) -> None:
    job = make_job()
    assert orders(job, saving=True).is_saved


def test_a_server_that_dies_in_the_last_cut_delays_it(job: Any) -> None:
    job.lease("trainer-0")
    server = job.servers[0]
    server.is_deaf = True
    orders(job, saving=True)
    job.apply(Disconnected(server.incarnation))
    job.wait(0.75)
    server.is_deaf, server.incarnation, server.parts = False, 0, {}
    assert not orders(job, saving=True).is_saved
    job.wait(8.0)
    assert orders(job, saving=True).is_saved


# ---------------------------------------------------------------- leaving


def test_a_trainer_that_was_told_to_leave_may_claim_again(job: Any) -> None:
    who = job.who("trainer-0")
    assert job.get("trainer-0", ClaimOnce(**who, name="report")).mine
    job.get("trainer-0", Leave(**who, is_done=False))
    assert job.state.durable.left == set()
    assert job.state.durable.trainers == {}


def test_a_trainer_that_abandons_its_lease_is_fenced_and_its_task_goes_on(job: Any) -> None:
    lease = job.lease("trainer-0")
    for server in job.servers:
        server.marks[lease.key] = (1,)
    job.get("trainer-0", Leave(**job.who("trainer-0"), is_done=False))
    job.open("trainer-1")
    again = job.lease("trainer-1")
    assert (again.key, again.first) == (lease.key, 2)


# ---------------------------------------------------------------- tasks that kill


def crash(job: Any) -> None:
    """The trainer's process crashes, the launcher says so, another one comes."""
    orders(job, exits=(CRASH,))
    job.open("trainer-0")


def test_a_task_that_ends_its_trainers_is_given_up_and_others_go_on(job: Any) -> None:
    for _ in range(3):
        assert job.lease("trainer-0").key.task == 0
        crash(job)
    assert job.lease("trainer-0").key.task == 1
    (given_up,) = [o for o in job.outcomes if isinstance(o, TaskFailed)]
    assert given_up.key.task == 0
    assert "3 crashes" in given_up.reason


def test_trainers_killed_from_outside_do_not_make_a_task_poison(job: Any) -> None:
    for _ in range(10):
        assert job.lease("trainer-0").key.task == 0
        orders(job, exits=(Exited("trainer-0", 1, -9),))
        job.open("trainer-0")
    assert job.lease("trainer-0").key.task == 0


def test_a_crash_counts_once_whoever_saw_the_end_first(job: Any) -> None:
    lease = job.lease("trainer-0")
    job.lose("trainer-0")
    orders(job, exits=(CRASH,))
    orders(job, exits=(CRASH,))
    assert [o for o in job.outcomes if isinstance(o, TasksCrashed)] == [
        TasksCrashed((lease.key,))
    ]
    assert job.state.durable.queue.crashes == {0: 1}


def test_the_records_of_a_given_up_task_are_listed_one_by_one(job: Any) -> None:
    for _ in range(3):
        lease = job.lease("trainer-0")
        job.tick("trainer-0", lease, lease.first, 1)  # 2 of 5 batches have their effect
        for server in job.servers:
            server.marks[lease.key] = (1,)
        crash(job)
    asked = AskLease(**job.who("trainer-0"), stage=0)
    effects = job.state.apply(Asked("trainer-0", 999, asked), job.now).effects
    (missing,) = [e for e in effects if isinstance(e, Happened)]
    positions = range(4, 10)  # batches 2, 3, 4 of two records
    expected = records_at(positions, 40, 0, 0, shuffle=True).tolist()
    assert missing.event == "RecordsMissing"
    assert missing.fields["records"] == expected
    assert any(
        isinstance(getattr(e, "message", None), Granted | StageOver) for e in effects
    )

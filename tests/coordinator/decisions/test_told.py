"""What is told now and then, and shown of a status: trainers' time, servers' load."""

import pytest

from paceline.config import Async, Pace, Sync
from paceline.messages.server import Orders, SlotLoad
from paceline.messages.shared import Lease, SpentTime, Waiting
from paceline.messages.trainer import AskLease, Beat
from paceline.messages.watching import AskStatus, JobStatus, ProcessStatus
from paceline.parking import PARK_S
from tests.coordinator.conftest import Job

SPENT = SpentTime(0.5, 2.0, 1.0, 0.25)


def stands(job: Job, role: str) -> ProcessStatus:
    status = job.get("observer", AskStatus())
    assert isinstance(status, JobStatus)
    [found] = [one for one in status.processes if one.id == role]
    return found


def test_what_a_trainers_time_went_into_comes_with_ticks_and_beats() -> None:
    job = Job(pace=Async())
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    assert isinstance(lease, Lease)
    assert stands(job, "trainer-0").spent is None

    job.tick("trainer-0", lease, 0, 0, spent=SPENT)
    job.tick("trainer-0", lease, 1, 1)
    assert stands(job, "trainer-0").spent == SPENT

    more = SPENT._replace(others=9.0)
    job.get("trainer-0", Beat(**job.who("trainer-0"), clock=1, spent=more))
    assert stands(job, "trainer-0").spent == more


def test_a_coordinator_that_has_come_back_learns_by_a_beat_where_a_trainer_is() -> None:
    job = Job(pace=Async())
    job.open("trainer-0")
    before = stands(job, "trainer-0")
    job.restart()
    job.serve()
    at = {"pid": before.pid, "host": before.host}
    job.get("trainer-0", Beat(**job.who("trainer-0"), clock=1, state="training", **at))
    after = stands(job, "trainer-0")
    assert (after.pid, after.host, after.state) == (before.pid, before.host, "training")
    assert after.pid

    job.get("trainer-0", Beat(**job.who("trainer-0"), clock=1))
    assert stands(job, "trainer-0").pid == before.pid


def test_a_servers_load_is_as_it_was_told_last() -> None:
    job = Job(pace=Async())
    job.open("trainer-0")
    server = job.servers[0]
    load = (SlotLoad(0, 1.5, 4), SlotLoad(3, 0.0, 0))
    for told in (load, None):
        server.load = told
        job.wait(2 * PARK_S)
        job.serve()

    assert stands(job, "server-0").load == load


@pytest.mark.parametrize("pace", [Async(), Sync()], ids=str)
def test_a_clock_counts_a_trainers_steps(pace: Pace) -> None:
    job = Job(pace=pace)
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    assert isinstance(lease, Lease)
    if pace == Sync():  # rounds know, before a beat says so
        job.tick("trainer-0", lease, 0, 0, round=1)
        job.tick("trainer-0", lease, 1, 1, round=2)
    else:
        job.get("trainer-0", Beat(**job.who("trainer-0"), clock=2))
    assert stands(job, "trainer-0").clock == 2


def test_a_server_without_orders_is_told_so_when_its_own_time_is_over() -> None:
    job = Job(trainers=2, pace=Async())
    job.open("trainer-0")
    asked = job.ask("trainer-0", AskLease(**job.who("trainer-0"), stage=0))
    job.serve()
    job.now += PARK_S / 2
    ticket = job.ask("server-0", job.servers[0].report())
    job.now += PARK_S / 2
    job.ask("observer", AskStatus())
    assert isinstance(job.answers[asked], Waiting)
    assert ticket not in job.answers
    job.now += PARK_S / 2
    job.ask("observer", AskStatus())
    assert job.answers[ticket] == Orders(incarnation=job.servers[0].incarnation)

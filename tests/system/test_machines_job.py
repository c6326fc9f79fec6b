"""A job over three machines, which are network namespaces, counts exactly."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.machine import machine_name
from paceline.testing.machines import Machines
from tests.system.events import events_of
from tests.system.hosts import HostedJob, within

pytestmark = [
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.timeout(0),
    pytest.mark.usefixtures("needs_machines"),
]
LONG = ("--records", "9600", "--ids", "200", "--epochs", "1", "--sleep-ms", "80")
LONGER = (*LONG, "--epochs", "2")
OPTIONS = ("--trainers", "4", "--servers", "2", "--await-hosts", "3", "--timeout", "3s")


ORPHAN_S = 15.0
GOING_S = 10.0  # a try to reach the launcher that has begun, and an end in order


@pytest.fixture
def machines() -> Iterator[Machines]:
    with Machines(3) as made:
        yield made


@pytest.fixture
def job(
    request: pytest.FixtureRequest, tmp_path: Path, machines: Machines
) -> Iterator[HostedJob]:
    script = getattr(request, "param", LONG)
    begun = HostedJob(tmp_path, *OPTIONS, script=script, machines=machines)
    begun.host()
    begun.host()
    yield begun
    begun.close()


def test_a_machine_that_is_gone_and_a_cable_that_is_pulled_cost_no_record(
    job: HostedJob, machines: Machines
) -> None:
    within(90.0, "a few records count", lambda: job.records() > 200)
    hosts = {process["host"] for process in job.status()["processes"]}
    assert {"agent-1", "agent-2"} < hosts

    machines[1].kill()
    within(30.0, "it is lost", lambda: job.is_lost("agent-1"))
    before = job.records()
    within(90.0, "the others go on", lambda: job.records() > before)
    machines[2].cut()
    within(30.0, "it is lost, too", lambda: job.is_lost("agent-2"))
    machines[2].heal()

    assert job.end()["exact"]
    assert job.agents[1].wait(15.0) == 1
    assert "is lost to the job" in job.said("agent-2")
    within(10.0, "nothing is left", lambda: not machines[2].processes())


@pytest.mark.soak
def test_whoever_is_hung_beyond_the_time_out_is_refused_when_it_wakes(
    job: HostedJob, machines: Machines
) -> None:
    within(90.0, "a few records count", lambda: job.records() > 200)

    machines[1].hang()
    within(30.0, "it is lost", lambda: job.is_lost("agent-1"))
    machines[1].wake()

    assert job.end()["exact"]
    assert job.agents[0].wait(15.0) == 1
    assert "is lost to the job" in job.said("agent-1")


@pytest.mark.soak
def test_who_hears_of_a_machine_and_is_not_heard_by_it_loses_it(
    job: HostedJob, machines: Machines
) -> None:
    within(90.0, "a few records count", lambda: job.records() > 200)

    machines[0].cut_one_way(machines[1])  # what host-1 says arrives, and no answer does
    within(30.0, "it is lost", lambda: job.is_lost("agent-1"))
    machines[0].heal()

    assert job.end()["exact"]
    assert job.agents[0].wait(15.0) == 1


@pytest.mark.soak
def test_hosts_whose_launcher_is_gone_end_all_that_they_have_and_not_before(
    tmp_path: Path, machines: Machines
) -> None:
    job = HostedJob(tmp_path, *OPTIONS, script=LONG, machines=machines)
    try:
        for _ in machines[1], machines[2]:
            job.host("--orphan-after", f"{ORPHAN_S:g}s")
        within(90.0, "a few records count", lambda: job.records() > 200)
        hosts = {process["host"] for process in job.status()["processes"]}
        assert {"agent-1", "agent-2"} < hosts

        machines[0].kill()
        gone_s = time.monotonic()
        while time.monotonic() < gone_s + ORPHAN_S - 1.0:
            assert all(agent.poll() is None for agent in job.agents)
            time.sleep(0.2)

        assert [agent.wait(GOING_S) for agent in job.agents] == [1, 1]
        assert [machines[n].processes() for n in (1, 2)] == [[], []]
        for name in ("agent-1", "agent-2"):
            assert "nothing was heard from the launcher" in job.said(name)
    finally:
        job.close()


@pytest.mark.soak
@pytest.mark.parametrize("job", [LONGER], indirect=True, ids=["long"])
def test_trainers_that_lack_one_server_start_where_they_reach_all_and_no_server_is_lost(
    job: HostedJob, machines: Machines
) -> None:
    within(90.0, "a few records count", lambda: job.records() > 200)
    assert {"agent-1", "agent-2"} < set(trainers_at(job))

    machines[1].cut_one_way(machines[2])
    here = [machine_name()] * 4
    within(60.0, "all are where all is reached", lambda: trainers_at(job) == here)
    machines[1].heal()

    assert job.end()["exact"]
    assert not events_of(job.job.path, "ServerLost")
    lost = events_of(job.job.path, "TrainerLost")
    assert {event["kind"] for event in lost} == {"unreached"}


def trainers_at(job: HostedJob) -> list[str]:
    """The machines that trainers are on, one for each."""
    processes = job.status().get("processes", ())
    return [process["host"] for process in processes if process["role"] == "trainer"]

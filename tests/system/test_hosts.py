"""A job over several hosts counts exactly, and a host that cannot take part is told why."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.disk_scenes import Disk
from tests.system.hosts import COUNTING, HostedJob, stop, tree, within

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]
LONG = ("--records", "4800", "--ids", "200", "--epochs", "1", "--sleep-ms", "60")
THREE = ("--trainers", "3", "--servers", "2", "--await-hosts", "2")


@pytest.fixture
def jobs() -> Iterator[list[HostedJob]]:
    begun: list[HostedJob] = []
    yield begun
    for job in begun:
        job.close()


def test_two_hosts_count_exactly_and_both_go_at_the_end(
    tmp_path: Path, jobs: list[HostedJob]
) -> None:
    job = HostedJob(tmp_path, *THREE, script=("--records", "1600", "--epochs", "1"))
    jobs.append(job)
    agent = job.host()

    assert job.end()["exact"]
    assert agent.wait(10.0) == 0
    assert "the job is over" in job.said("agent-1")
    assert "host-1 has joined: agent-1, tcp:127.0.0.1:" in job.said()
    there = {log.stem for log in (tmp_path / "agent-1" / "logs").glob("*-*.log")}
    here = {log.stem for log in job.job.logs.glob("*-*.log")}
    assert there | here >= {"server-0", "server-1", *(f"trainer-{n}" for n in range(3))}
    assert "server-1" in there or "server-0" in there


def test_a_container_for_each_role_counts_exactly_and_roles_wait_for_theirs(
    tmp_path: Path, jobs: list[HostedJob]
) -> None:
    two = ("--trainers", "2", "--servers", "1", "--await-hosts", "2")
    small = ("--records", "800", "--epochs", "1")
    job = HostedJob(tmp_path, *two, script=small, lead=("role", "coordinator"))
    jobs.append(job)
    for _ in range(2):
        job.host(words=("role", "trainer"))
    within(60.0, "server waits", lambda: "to start server-0: no machine" in job.said())
    job.host(words=("role", "server"))

    assert job.end()["exact"]
    assert [agent.wait(10.0) for agent in job.agents] == [0, 0, 0]
    there = [
        sorted(log.stem for log in (tmp_path / f"agent-{n}" / "logs").glob("*-[0-9].log"))
        for n in (1, 2, 3)
    ]
    assert sorted(there) == [["server-0"], ["trainer-0"], ["trainer-1"]]


@pytest.mark.parametrize("way", ["killed", pytest.param("hung", marks=pytest.mark.soak)])
def test_a_lost_host_costs_no_record(
    way: str, tmp_path: Path, jobs: list[HostedJob]
) -> None:
    job = HostedJob(tmp_path, *THREE, "--timeout", "3s", script=LONG)
    jobs.append(job)
    agent = job.host()
    within(60.0, "a few records count", lambda: job.records() > 200)
    there = tree(agent.pid)
    assert len(there) > 3

    if way == "killed":
        stop(there[:1], signal.SIGKILL)
    else:
        stop(there, signal.SIGSTOP)
    within(30.0, "the host is lost", lambda: "host-1 (agent-1" in job.said())
    if way == "hung":
        within(60.0, "others go on", lambda: "server" in str(job.status()))
        stop(there, signal.SIGCONT)

    assert job.end()["exact"]
    said = job.said()
    assert said.count("is lost: it has been silent for 3 s; with it server-") == 1
    assert agent.wait(10.0) == (1 if way == "hung" else -signal.SIGKILL)
    if way == "hung":
        assert "host-1 is lost to the job" in job.said("agent-1")
    within(10.0, "nothing of it is left", lambda: not any(p.is_running() for p in there))


@pytest.mark.soak
def test_a_host_that_is_told_to_stop_leaves_the_job_to_the_others(
    tmp_path: Path, jobs: list[HostedJob]
) -> None:
    job = HostedJob(tmp_path, *THREE, script=LONG)
    jobs.append(job)
    agent = job.host()
    within(60.0, "a few records count", lambda: job.records() > 200)

    agent.terminate()

    assert agent.wait(20.0) == 75
    assert job.end()["exact"]
    assert "is lost: agent-1 was told to stop; with it server-" in job.said()


def test_who_cannot_take_part_is_told_why_and_so_is_the_launcher(
    tmp_path: Path, jobs: list[HostedJob]
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        (folder / "train.py").write_bytes(COUNTING.read_bytes())
    with (there / "train.py").open("a") as script:
        script.write("# another line\n")
    (tmp_path / "other").write_text("ab" * 32)
    other = {"PACELINE_SECRET_FILE": str(tmp_path / "other")}
    small = ("train.py", "--records", "800", "--epochs", "1")
    job = HostedJob(tmp_path, "--await-hosts", "2", script=small, cwd=here)
    jobs.append(job)

    foreign, unlike = job.host(environment=other), job.host(cwd=there)

    assert (foreign.wait(60.0), unlike.wait(60.0)) == (2, 2)
    assert "must belong to one run and have its secret" in job.said("agent-1")
    assert "is not what the launcher runs" in job.said("agent-2")
    assert "is lost: agent-2 cannot take part: train.py in" in job.said()
    job.host(cwd=here)
    assert job.end()["exact"]


@pytest.mark.soak
def test_a_machine_whose_disk_is_full_is_refused_by_name_or_goes_on_without_logs(
    tmp_path: Path, jobs: list[HostedJob], disk: Disk
) -> None:
    disk.fill()
    job = HostedJob(tmp_path, *THREE, script=LONG)
    jobs.append(job)
    full = job.host("--folder", str(disk.place / "full"))
    assert full.wait(60.0) == 1
    assert "is lost: agent-1 cannot take part: " in job.said()
    assert "the disk is full" in job.said("agent-1")

    disk.free()
    later = job.host("--folder", str(disk.place / "later"))
    within(60.0, "a few records count", lambda: job.records() > 200)
    disk.fill()

    assert job.end()["exact"]
    assert later.wait(20.0) == 0

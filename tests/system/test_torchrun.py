"""A script under torchrun counts exactly, whatever torchrun does to its processes."""

import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from paceline.testing.machines import Machines
from tests.system.hosts import COUNTING, HostedJob, stop, within
from tests.system.torchruns import DAEMON, LIMIT_S, TorchrunJob

pytestmark = [pytest.mark.around, pytest.mark.system, pytest.mark.timeout(0)]
GONE_S = 15.0
LONG = ("--records", "6400", "--ids", "200", "--epochs", "1", "--sleep-ms", "60")


@pytest.fixture
def jobs() -> Iterator[list[TorchrunJob]]:
    begun: list[TorchrunJob] = []
    yield begun
    for job in begun:
        job.close()


def require_nothing_left(job: TorchrunJob) -> None:
    """No process of the job is left, nor a folder of its daemon."""
    within(GONE_S, "all have gone", lambda: not job.processes())


def test_one_machine_trains_to_the_end_and_leaves_nothing(
    tmp_path: Path, jobs: list[TorchrunJob]
) -> None:
    job = TorchrunJob(tmp_path, "--records", "3200")
    jobs.append(job)

    assert job.alone().wait(LIMIT_S) == 0, job.said()

    assert job.counted()["exact"]
    summary = job.summary()
    assert summary["records"] == 6400
    assert summary["restarts"] == {"coordinator": 0, "server": 0, "trainer": 0}
    said = job.said()
    assert "1 to 2 trainers, 1 server, async" in said
    assert "status      finished" in said
    require_nothing_left(job)


def test_processes_below_wrappers_train_one_job_together(
    tmp_path: Path, jobs: list[TorchrunJob]
) -> None:
    wrapper = tmp_path / "wrap.sh"
    wrapper.write_text('#!/bin/sh\n"$@"\nexit $?\n')  # it stays above what it runs
    wrapper.chmod(0o700)
    job = TorchrunJob(tmp_path, "--records", "3200")
    jobs.append(job)

    assert job.alone(wrapper=str(wrapper)).wait(LIMIT_S) == 0, job.said()

    assert job.counted()["exact"]
    assert job.summary()["records"] == 6400
    assert job.said().count("1 to 2 trainers, 1 server, async") == 1
    require_nothing_left(job)


def test_a_killed_trainer_has_all_begin_again_and_no_record_counts_twice(
    tmp_path: Path, jobs: list[TorchrunJob]
) -> None:
    job = TorchrunJob(tmp_path, *LONG)
    jobs.append(job)
    node = job.alone("--max-restarts", "3")
    within(LIMIT_S, "a few records count", lambda: job.records() > 200)
    before, servers = set(job.pids("trainer").values()), job.pids("server")
    assert len(before) == 2

    os.kill(min(before), signal.SIGKILL)

    def are_new() -> bool:
        now = set(job.pids("trainer").values())
        return len(now) == 2 and not now & before

    within(LIMIT_S, "two other processes train", are_new)
    assert job.pids("server") == servers
    status = job.stands()
    assert status is not None
    assert status.timeline == 0
    assert node.wait(LIMIT_S) == 0, job.said()
    assert job.counted()["exact"]
    assert job.summary()["restarts"]["server"] == 0
    require_nothing_left(job)


def test_a_machine_comes_and_another_is_lost_and_servers_do_not_notice(
    tmp_path: Path, jobs: list[TorchrunJob]
) -> None:
    place = str(tmp_path / "cuts")
    longer = ("--records", "16000", *LONG[2:])
    job = TorchrunJob(tmp_path, *longer, PACELINE_CHECKPOINTS=place)
    jobs.append(job)
    change_machines(job)


@pytest.mark.soak
@pytest.mark.usefixtures("needs_machines")
def test_the_same_holds_between_machines_with_addresses_of_their_own_within_tls(
    tmp_path: Path, jobs: list[TorchrunJob]
) -> None:
    place = str(tmp_path / "cuts")
    longer = ("--records", "16000", *LONG[2:])
    with Machines(2) as machines:
        job = TorchrunJob(
            tmp_path, *longer, machines=list(machines), PACELINE_CHECKPOINTS=place
        )
        jobs.append(job)
        change_machines(job)
        assert f"paceline host --join {machines[0].ipv4}:" in job.said("one")


def change_machines(job: TorchrunJob) -> None:
    """One comes, and is lost; the servers stay, and all counts."""
    first = job.node("one", "1:3")
    within(LIMIT_S, "a few records count", lambda: job.records() > 200)
    servers = job.pids("server")

    job.node("two", "1:3")
    within(LIMIT_S, "both train", lambda: len(job.pids("trainer")) == 4)
    assert "host-1 has joined: two" in job.said("one")
    assert job.pids("server") == servers
    counted = job.records()
    job.kill_node("two")

    within(LIMIT_S, "it is lost", lambda: "host-1 (two" in job.said("one"))
    within(LIMIT_S, "others go on", lambda: job.records() > counted + 200)
    assert job.pids("server") == servers
    status = job.stands()
    assert status is not None
    assert status.timeline == 0
    summary = job.summary()
    assert summary["status"] == "finished"
    assert summary["restarts"]["server"] == 0
    assert job.counted()["exact"]
    first.terminate()  # it waits for the lost one, for five minutes
    first.wait(LIMIT_S)
    require_nothing_left(job)


@pytest.mark.soak
def test_trainers_without_torchrun_are_ended_and_the_job_keeps_what_counts(
    tmp_path: Path, jobs: list[TorchrunJob]
) -> None:
    job = TorchrunJob(tmp_path, *LONG)
    jobs.append(job)
    node = job.alone()
    within(LIMIT_S, "a few records count", lambda: job.records() > 200)

    node.kill()

    summary = job.summary()
    assert summary["status"] == "stopped"
    assert 200 < summary["records"] < 6400
    within(GONE_S, "it says so", lambda: "interrupted; saved as cut" in job.said())
    require_nothing_left(job)


def test_what_leads_is_killed_and_the_job_goes_on_from_its_last_checkpoint(
    tmp_path: Path, jobs: list[TorchrunJob]
) -> None:
    job = TorchrunJob(tmp_path, *LONG)
    jobs.append(job)
    node = job.alone("--max-restarts", "3")
    within(LIMIT_S, "a few records count", lambda: job.records() > 200)
    before = {process.pid for process in job.processes()} - {node.pid}

    stop([one for one in job.processes() if DAEMON in one.cmdline()], signal.SIGKILL)

    assert node.wait(LIMIT_S) == 0, job.said()
    assert "job folder job, resumed, 1 to 2 trainers" in job.said()
    assert job.counted()["exact"]
    require_nothing_left(job)
    assert not any(map(psutil.pid_exists, before))


@pytest.mark.soak
def test_a_launcher_that_was_started_by_itself_leads(
    tmp_path: Path, jobs: list[TorchrunJob]
) -> None:
    options = ("--trainers", "1:4", "--coordinator-only", "--servers", "1")
    script = (str(COUNTING), "--out", str(tmp_path / "verdict.json"))
    launcher = HostedJob(tmp_path, *options, script=script, is_counting=False)
    job = TorchrunJob(
        tmp_path,
        PACELINE_JOIN=launcher.address,
        PACELINE_SECRET_FILE=str(launcher.secret),
    )
    jobs.append(job)
    try:
        assert job.alone().wait(LIMIT_S) == 0, job.said() + launcher.said()
        assert launcher.launcher.wait(LIMIT_S) == 0
    finally:
        launcher.close()
    assert job.counted()["exact"]
    assert "joined as host-1" in job.said()
    assert "1 server, async" in launcher.said()
    require_nothing_left(job)


def test_several_machines_need_a_place_for_checkpoints(
    tmp_path: Path, jobs: list[TorchrunJob]
) -> None:
    job = TorchrunJob(tmp_path)
    jobs.append(job)

    assert job.node("one", "1:3").wait(LIMIT_S) == 1

    said = job.said("one")
    assert "torchrun may start this job on 3 machines" in said
    assert "PACELINE_CHECKPOINTS" in said
    require_nothing_left(job)


def test_two_machines_with_a_server_each_end_together_and_well(
    tmp_path: Path, jobs: list[TorchrunJob]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(secrets.token_hex(32))
    secret.chmod(0o600)
    job = TorchrunJob(
        tmp_path,
        *("--records", "3200"),
        PACELINE_CHECKPOINTS=str(tmp_path / "cuts"),
        PACELINE_SECRET_FILE=str(secret),
        PACELINE_SERVERS="2",
    )
    jobs.append(job)

    nodes = [job.node("one", "2"), job.node("two", "2")]

    assert [node.wait(LIMIT_S) for node in nodes] == [0, 0]
    assert job.counted()["exact"]
    assert job.summary()["records"] == 6400
    said = job.said("one") + job.said("two")
    assert "the job begins when 1 more have joined" in said
    assert "joined as host-1" in said
    there = tmp_path.glob("runs/*-host-1/logs/server-*.log")
    assert len(list(there)) == 1, "each machine has one"
    require_nothing_left(job)

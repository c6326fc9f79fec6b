"""A script under torchrun counts exactly, whatever torchrun does to its processes."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.hosts import within
from tests.system.torchruns import LIMIT_S, TorchrunJob

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

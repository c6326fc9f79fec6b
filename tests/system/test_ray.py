"""A job on a Ray cluster: what machines, actors and the launcher may do to it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.system.hosts import COUNTING, HostedJob, tree, within

pytestmark = [
    pytest.mark.around,
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.timeout(0),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]
STORE = 100 << 20
UP_S = 120.0
LONG = ("--records", "16000", "--ids", "200", "--epochs", "1", "--sleep-ms", "60")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without CPUs; machines come and go with tests."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415  (for these tests alone)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
        made = Cluster(initialize_head=True, head_node_args=head)
        yield made
        made.shutdown()


@pytest.fixture
def add(cluster: Any) -> Iterator[Callable[[int], Any]]:
    """Adds a machine with so many CPUs; all are gone after the test."""
    added: list[Any] = []

    def make(cpus: int) -> Any:
        added.append(cluster.add_node(num_cpus=cpus, object_store_memory=STORE))
        return added[-1]

    yield make
    for node in added:
        if node in cluster.list_all_nodes():
            cluster.remove_node(node, allow_graceful=False)


@pytest.fixture
def begin(cluster: Any, tmp_path: Path) -> Iterator[Callable[..., HostedJob]]:
    """Begins a job on the cluster, from a folder with its script alone."""
    jobs: list[HostedJob] = []

    def make(*options: str, script: tuple[str, ...] = LONG) -> HostedJob:
        code = tmp_path / "code"
        code.mkdir()
        shutil.copy(COUNTING, code / "train.py")
        job = HostedJob(
            tmp_path,
            *("--timeout", "3s", *options),
            ssh=("--engine", "ray"),
            script=("train.py", *script),
            environment={"RAY_ADDRESS": cluster.address},
            cwd=code,
        )
        jobs.append(job)
        return job

    yield make
    for job in jobs:
        job.close()
        within(30.0, "agents are gone", lambda job=job: not agents(job))


def agents(job: HostedJob, kind: str = "") -> list[psutil.Process]:
    """The agents of a job, of servers or trainers, if it says so."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if job.address in words and "tether" not in " ".join(words):
                name = words[words.index("--name") + 1]
                found += [process] if name.startswith(kind) else []
    return found


def roles(job: HostedJob, kind: str = "") -> list[psutil.Process]:
    """Agents, and all that they have started."""
    return [one for agent in agents(job, kind) for one in tree(agent.pid)]


def running(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that are there still."""
    return [
        one
        for one in processes
        if one.is_running() and one.status() != psutil.STATUS_ZOMBIE
    ]


def test_a_job_on_a_cluster_counts_exactly_and_leaves_nothing(
    add: Callable[[int], Any], begin: Callable[..., HostedJob]
) -> None:
    add(2)
    add(2)
    small = ("--records", "1600", "--epochs", "1")
    job = begin("--trainers", "2", "--servers", "2", script=small)

    assert within(UP_S, "agents run", lambda: len(agents(job)) == 4)
    of_it = roles(job)
    told = " ".join(word for one in of_it for word in one.cmdline())
    assert job.secret.read_text() not in told
    assert job.end()["exact"]
    assert "/code goes to the cluster: 1 file, " in job.said()
    within(10.0, "nothing is left", lambda: not running(of_it) and not agents(job))
    assert {log.stem for log in job.job.logs.glob("*-[0-9].log")} >= {
        *("server-0", "server-1", "trainer-0", "trainer-1")
    }

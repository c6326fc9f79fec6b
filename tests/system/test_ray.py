"""A job on a Ray cluster: what machines, actors and the launcher may do to it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
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
UP_S = 240.0
LONG = ("--records", "32000", "--ids", "200", "--epochs", "1", "--sleep-ms", "60")


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
            *("--timeout", "3s", "--checkpoint-every", "5s", *options),
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
                found += [process] if name_of(words).startswith(kind) else []
    return found


def name_of(words: list[str]) -> str:
    """A host's, from the words that its agent was started with."""
    return words[words.index("--name") + 1]


def roles(job: HostedJob, kind: str = "") -> list[psutil.Process]:
    """Agents, and all that they have started."""
    return [one for agent in agents(job, kind) for one in tree(agent.pid)]


def running(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that are there still."""
    found = []
    for one in processes:
        with suppress(psutil.Error):
            is_there = one.is_running() and one.status() != psutil.STATUS_ZOMBIE
            found += [one] if is_there else []
    return found


def raylet_above(process: psutil.Process) -> int:
    """The raylet to which a process belongs."""
    return next(one.pid for one in process.parents() if one.name() == "raylet")


def raylet_of(node: Any) -> psutil.Process:
    """The process that is a machine to Ray."""
    [info] = node.all_processes["raylet"]
    return psutil.Process(info.process.pid)


def wait_training(job: HostedJob) -> None:
    """Until records count."""

    def counts() -> bool:
        assert job.launcher.poll() is None, job.said()
        return job.records() > 0

    within(UP_S, "it trains", counts)


def num_trainers(job: HostedJob) -> int:
    """How many train."""
    stands = job.stands()
    return 0 if stands is None else sum(p.role == "trainer" for p in stands.processes)


def asked(join: str, cluster: Any) -> subprocess.CompletedProcess[str]:
    """What a command of another process says of a job by its name."""
    words = ["-m", "paceline.cli.main", "status", "--json", "--join", join]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    return subprocess.run(
        [sys.executable, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=UP_S,
        check=False,
    )


def test_a_job_on_a_cluster_counts_exactly_and_leaves_nothing(
    add: Callable[[int], Any], begin: Callable[..., HostedJob], cluster: Any
) -> None:
    add(2)
    add(2)
    small = ("--records", "4800", "--epochs", "1", "--sleep-ms", "60")
    job = begin("--trainers", "2", "--servers", "2", script=small)

    assert within(UP_S, "agents run", lambda: len(agents(job)) == 4)
    of_it = roles(job)
    told = " ".join(word for one in of_it for word in one.cmdline())
    assert job.secret.read_text() not in told
    assert {one.nice() for one in of_it} == {os.getpriority(os.PRIO_PROCESS, 0)}
    assert f"paceline status --join ray:{job.job.path.name}" in job.said()
    wait_training(job)
    stands = asked(f"ray:{job.job.path.name}", cluster)
    assert {one["id"] for one in json.loads(stands.stdout)["processes"]} >= {"server-1"}
    refused = asked("ray:another", cluster)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert (
        f"no such job runs on this cluster; ray:{job.job.path.name} does" in refused.stderr
    )
    assert job.end()["exact"]
    assert "/code goes to the cluster: 1 file, " in job.said()
    within(10.0, "nothing is left", lambda: not running(of_it) and not agents(job))
    logs = {log.stem for log in job.job.logs.glob("*.log")}
    assert {"server-0", "server-1"} <= logs
    assert logs & {"trainer-0", "trainer-1"}, "one of them has said what came of it"


def test_an_added_machine_takes_those_that_wait_and_a_killed_one_is_left_for_another(
    add: Callable[[int], Any], begin: Callable[..., HostedJob], cluster: Any
) -> None:
    first = add(4)
    job = begin("--trainers", "2:4", "--servers", "1")
    wait_training(job)
    one = re.compile(r"for a place in the cluster: trainers-\d$", re.MULTILINE)
    within(UP_S, "one has no place", lambda: one.search(job.said()))
    before = set(roles(job))

    add(4)

    within(UP_S, "who waited has joined", lambda: len(agents(job, "trainers")) == 4)
    assert before == set(running(before)), "the others go on"
    within(UP_S, "all train", lambda: num_trainers(job) == 4)

    at_first = [one for one in agents(job) if raylet_above(one) == raylet_of(first).pid]
    of_it = [process for one in at_first for process in tree(one.pid)]
    assert len(at_first) >= 3, "a server's host, and two of trainers"
    names = [name_of(one.cmdline()) for one in at_first]
    cluster.remove_node(first, allow_graceful=False)

    within(20.0, "what ran there is gone", lambda: not running(of_it))
    # Each host by its silence, or in its own last words: whichever end comes first.
    within(30.0, "it is told", lambda: all(map(job.is_lost, names)))
    assert job.end()["exact"]


def test_an_actor_that_is_killed_takes_its_roles_and_comes_back(
    add: Callable[[int], Any], begin: Callable[..., HostedJob]
) -> None:
    add(3)
    job = begin("--trainers", "2", "--trainers-per-host", "2", "--servers", "1")
    wait_training(job)
    [agent] = agents(job, "trainers")
    [actor] = [one for one in agent.parents() if one.name().startswith("ray::")]
    of_it = tree(agent.pid)
    assert len(of_it) >= 4, "a fork server, and two trainers"

    actor.kill()

    within(10.0, "its roles are gone", lambda: not running(of_it))
    within(UP_S, "it is back", lambda: len(agents(job, "trainers")) == 1)
    within(UP_S, "both train again", lambda: num_trainers(job) == 2)
    left = roles(job)

    job.launcher.kill()

    within(30.0, "nothing is left", lambda: not running(left) and not agents(job))


def test_who_is_on_a_machine_that_is_drained_leaves_and_comes_elsewhere(
    add: Callable[[int], Any], begin: Callable[..., HostedJob], cluster: Any
) -> None:
    first = add(2)
    job = begin(
        "--trainers", "1", "--servers", "1", script=("--records", "16000", *LONG[2:])
    )
    wait_training(job)
    add(2)

    drain(cluster, first)

    within(30.0, "it is told", lambda: job.said().count("Ray drains its machine") == 2)
    within(
        UP_S,
        "both are elsewhere",
        lambda: (
            [raylet_above(one) != raylet_of(first).pid for one in agents(job)]
            == [True, True]
        ),
    )
    assert job.end()["exact"]


@pytest.mark.soak
def test_a_machine_that_ray_thinks_dead_and_is_not_counts_once(
    add: Callable[[int], Any], begin: Callable[..., HostedJob]
) -> None:
    first, _ = add(3), add(3)
    script = ("--records", "64000", *LONG[2:])
    job = begin("--trainers", "2", "--servers", "2", script=script)
    wait_training(job)
    at_first = [one for one in agents(job) if raylet_above(one) == raylet_of(first).pid]

    raylet_of(first).suspend()
    try:
        within(UP_S, "Ray starts them elsewhere", lambda: len(agents(job)) > 4)
        assert running(at_first) == at_first, "they go on meanwhile"
    finally:
        raylet_of(first).resume()

    within(UP_S, "Ray's own have gone", lambda: not running(at_first))
    assert job.end()["exact"]


def drain(cluster: Any, node: Any) -> None:
    """Tell Ray that a machine is to go within two minutes."""
    words = ["--node-id", node.node_id, "--address", cluster.address]
    why = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "a test"]
    until = ["--deadline-remaining-seconds", "120"]
    ray = [sys.executable, "-m", "ray.scripts.scripts", "drain-node", *words, *why, *until]
    subprocess.run(ray, check=True, stdin=subprocess.DEVNULL, timeout=60.0)

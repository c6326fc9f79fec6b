"""A job on a Ray cluster of several machines: files that travel, machines that are lost."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recovery import job as stepping
from benchmarks.recovery.times import longest_gap
from paceline.testing.machines import Machine
from tests.system.hosts import COUNTING, HostedJob, within
from tests.system.ray_rig import (
    TIMEOUT_S,
    RayMachines,
    die,
    hosts_on,
    ray_machines,
    words_of,
)

pytestmark = [
    pytest.mark.around,
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.timeout(0),
    pytest.mark.usefixtures("needs_machines"),
]
MOST_NODES = 12  # that come in all tests together
UP_S = 240.0
NOTICED_S = 90.0  # Ray, when nothing answers
QUIET_S = 15.0
BACK_S = 15.0  # after Ray's notice: 2 s are Ray's, 1.5 the agent's, 4 go to torch's import
OWN = ("--trainer-resources", "trains=1")  # so that servers are elsewhere
SMALL = ("--records", "6400", "--ids", "200", "--epochs", "1", "--sleep-ms", "60")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayMachines]:
    with ray_machines(tmp_path_factory.mktemp("ray"), MOST_NODES) as made:
        yield made


@pytest.fixture
def node(cluster: RayMachines) -> Iterator[Callable[..., Machine]]:
    """Adds a machine, which is lost after the test."""
    added: list[Machine] = []

    def make(cpus: int, *, has_paceline: bool = True, **own: int) -> Machine:
        add = cluster.node if has_paceline else cluster.node_without_paceline
        added.append(add(cpus, **own))
        return added[-1]

    yield make
    for machine in added:
        machine.kill()


@pytest.fixture
def begin(cluster: RayMachines, tmp_path: Path) -> Iterator[Callable[..., HostedJob]]:
    """Begins a job from a folder that no machine of the cluster was started in."""
    jobs: list[HostedJob] = []

    def make(*options: str, **more: Any) -> HostedJob:
        jobs.append(cluster.job(tmp_path, *options, **more))
        return jobs[-1]

    (tmp_path / "code").mkdir()
    yield make
    for job in jobs:
        job.close()


def wait_training(job: HostedJob) -> None:
    """Until records count."""

    def counts() -> bool:
        assert job.launcher.poll() is None, job.said()
        return job.records() > 200

    within(UP_S, "it trains", counts)


def is_dead_to_ray(machine: Machine, said: str) -> bool:
    """Whether Ray has said of this machine, and not of another test's, that it is dead."""
    named = f"address: {machine.address} "
    return any("marked dead" in line and named in line for line in said.splitlines())


def test_a_machine_whose_processes_die_costs_no_record_and_nothing_of_the_job_is_left(
    node: Callable[..., Machine],
    begin: Callable[..., HostedJob],
    cluster: RayMachines,
    tmp_path: Path,
) -> None:
    """The script and a module beside it are where the launcher is, and nowhere else."""
    shutil.copy(COUNTING, tmp_path / "code" / "counting_alone.py")
    (tmp_path / "code" / "train.py").write_text(
        "import counting_alone\n\ncounting_alone.main()\n"
    )
    node(2)
    lost, other = node(0, trains=1), node(0, trains=2)
    job = begin(*("--trainers", "2", "--servers", "1", *OWN), script=("train.py", *SMALL))
    wait_training(job)
    assert [len(hosts_on(machine)) for machine in (lost, other)] == [1, 1]
    places = [Path(f"/proc/{pid}/cwd").resolve() for pid in roles_on(lost)]
    assert tmp_path / "code" not in places
    assert places
    assert all((place / "counting_alone.py").exists() for place in places)

    die(lost)

    within(30.0, "it is lost", lambda: "is lost: it" in job.said())
    before = job.records()
    within(30.0, "the other goes on", lambda: job.records() > before)
    assert job.end()["exact"]
    within(20.0, "nothing is left", lambda: not cluster.left())


def test_a_machine_without_paceline_is_named_with_what_to_do(
    node: Callable[..., Machine], begin: Callable[..., HostedJob], tmp_path: Path
) -> None:
    shutil.copy(COUNTING, tmp_path / "code" / "train.py")
    node(1)
    bare = node(0, has_paceline=False, trains=1)
    job = begin("--trainers", "1", "--servers", "1", *OWN, script=("train.py", *SMALL))

    assert job.launcher.wait(UP_S) == 1

    told = f"trainers-0 is gone: paceline is not installed on {bare.address}: pip install "
    assert f"the job cannot begin with as many hosts as it is to: {told}" in job.said()


@pytest.mark.soak
@pytest.mark.parametrize("pace", ["async", "sync"])
def test_who_is_left_when_a_machine_falls_silent_hardly_waits_and_it_is_replaced(
    pace: str,
    node: Callable[..., Machine],
    begin: Callable[..., HostedJob],
    tmp_path: Path,
) -> None:
    shutil.copy(stepping.__file__, tmp_path / "code" / "train.py")
    node(2)
    lost, other = node(0, trains=1), node(0, trains=2)
    job = begin(
        *("--trainers", "2", "--servers", "1", "--pace", pace, *OWN),
        script=("train.py", "--folder", str(tmp_path)),
        is_counting=False,
    )
    wait_training(job)
    assert [len(hosts_on(machine)) for machine in (lost, other)] == [1, 1]
    [left] = set(steps(tmp_path)).intersection(other.processes())
    begun_s = time.time()
    within(QUIET_S + 5.0, "it has trained", lambda: time.time() > begun_s + QUIET_S)

    lost_s = time.time()
    lost.kill()
    ours_s = when(30.0, "it is lost", lambda: "is lost: it" in job.said())
    rays_s = when(NOTICED_S, "Ray says so", lambda: is_dead_to_ray(lost, job.said()))
    asked_s = when(UP_S, "it is started", lambda: "is to start it again" in job.said())
    joined_s = when(UP_S, "it joins", lambda: "host-4 has joined" in job.said())
    back_s = when(UP_S, "another trains", lambda: len(steps(tmp_path)) == 3)
    within(10.0, "and goes on", lambda: time.time() > back_s + 5.0)
    (tmp_path / "stop").touch()
    assert job.launcher.wait(60.0) == 0, job.said()

    moments = steps(tmp_path)[left]
    before = [moment for moment in moments if moment < lost_s]
    quiet = longest_gap(before, begun_s, lost_s) or 0.0
    alone, joined = (
        longest_gap(moments, since, until) or 0.0
        for since, until in ((lost_s, rays_s), (rays_s, back_s))
    )
    # An import takes as many times longer as others want the same cores.
    crowd = max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))
    print(  # noqa: T201  (what a soak has found)
        f"{pace}: longest gap of who is left: {quiet:.2f} s before, {alone:.2f} s from the "
        f"loss to Ray's notice, {joined:.2f} s while another starts beside it; noticed by "
        f"paceline after {ours_s - lost_s:.1f} s, by Ray after {rays_s - lost_s:.1f} s; "
        f"after that, its actor is started again {asked_s - rays_s:.1f} s later, its host "
        f"joins {joined_s - rays_s:.1f} s later, and trains {back_s - rays_s:.1f} s later; "
        f"{crowd:.1f} times as many processes ran as there are cores"
    )
    assert 0.0 < quiet < 1.0, "what is compared with is a quiet job"
    assert alone <= (quiet + 0.2 if pace == "async" else TIMEOUT_S + 2.0)
    assert back_s - rays_s <= BACK_S * crowd


def when(seconds: float, what: str, is_so: Callable[[], bool]) -> float:
    """The moment from which on something is so."""
    within(seconds, what, is_so)
    return time.time()


def steps(folder: Path) -> dict[int, list[float]]:
    """{process: when its steps were over}."""
    return {
        int(path.name.split("-")[-1]): [float(line) for line in path.read_text().split()]
        for path in folder.glob("steps-*")
    }


def roles_on(machine: Machine) -> list[int]:
    """Trainers on a machine."""
    pids = machine.processes()
    return [pid for pid in pids if "forked" in " ".join(words_of(pid))]

"""A job over three machines trains what the same job on one machine trains."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

import msgspec
import pytest

from paceline.data.sets.archives import FetchError
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.machines import Machine, Machines
from tests.examples.loading import load
from tests.system.hosts import LIMIT_S, HostedJob
from tests.system.test_same_bits import SCRIPT, digests, wait_processes

pytestmark = [
    pytest.mark.soak,
    pytest.mark.system,
    pytest.mark.timeout(0),
    pytest.mark.usefixtures("needs_machines"),
]
CTR = Path(__file__).parents[2] / "examples" / "ctr" / "train.py"
TRAINERS, SERVERS = 4, 2
SEEDS = (0, 1, 2)
GOING_S = 10.0


class Learned(msgspec.Struct):
    """Of a summary, what came of the job."""

    records: int
    metrics: dict[str, float]


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    with Machines(3) as made:
        yield list(made)


@pytest.fixture(scope="module")
def num_flights() -> int:
    """How many there are to train on; they are fetched here, where the network is."""
    (flights,) = load("ctr", "flights")
    try:
        train, _ = flights.load()
    except FetchError as error:
        pytest.skip(str(error))
    return len(train.labels)


def wait_hosted(
    folder: Path, machines: Sequence[Machine], script: Sequence[str | Path], *options: str
) -> HostedJob:
    """A job over machines that has ended well, with whatever it has left."""
    folder.mkdir()
    job = HostedJob(
        folder,
        *("--await-hosts", f"{len(machines)}", "--timeout", "60s", *options),
        script=[str(word) for word in script],
        machines=machines,
        is_counting=False,
    )
    try:
        for _ in machines[1:]:
            job.host()
        assert job.launcher.wait(LIMIT_S) == 0, job.said()
        assert [agent.wait(GOING_S) for agent in job.agents] == [0] * (len(machines) - 1)
    finally:
        job.close()
    return job


def roles_at(job: HostedJob, name: str) -> list[str]:
    """What has run on the machine of an agent."""
    return sorted(log.stem for log in (job.folder / name / "logs").glob("*-[0-9].log"))


def test_one_trainer_and_two_servers_on_three_machines_train_the_bits_of_one(
    forks: ForkServer, tmp_path: Path, machines: list[Machine]
) -> None:
    of_one = digests(wait_processes(forks, tmp_path / "one", SERVERS).checkpoints)
    options = ("--trainers", "1", "--servers", f"{SERVERS}", "--pace", "sync")

    job = wait_hosted(tmp_path / "three", machines, [SCRIPT], *options)

    there = sorted(roles_at(job, name) for name in ("agent-1", "agent-2"))
    assert there == [["server-0"], ["server-1"]], "the trainer is with the launcher"
    assert len(of_one) >= SERVERS
    assert digests(job.folder / "cuts") == of_one


def test_flights_are_learned_on_three_machines_as_on_one(
    tmp_path: Path, machines: list[Machine], num_flights: int
) -> None:
    options = ("--trainers", f"{TRAINERS}", "--servers", f"{SERVERS}", "--pace", "sync")
    found: dict[str, list[float]] = {"one": [], "three": []}
    for seed in SEEDS:
        for name, some in (("one", machines[:1]), ("three", machines)):
            folder = tmp_path / f"{name}-{seed}"
            job = wait_hosted(folder, some, [CTR, "--seed", f"{seed}"], *options)
            summary = msgspec.convert(job.job.read_summary(), Learned)
            assert summary.records == num_flights
            found[name].append(summary.metrics["auc"])
    one, three = found["one"], found["three"]
    print(f"AUC {found}")  # noqa: T201  (the figures of a soak)
    spread = max(one) - min(one)
    assert all(abs(mean(one) - auc) <= spread for auc in three)
    assert min(one) > 0.73, "it has learned nothing"

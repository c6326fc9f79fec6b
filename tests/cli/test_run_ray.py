"""What a command line says of machines that a Ray cluster has."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.cli import run as run_command
from paceline.cli.options import machines
from paceline.config import JobConfig
from paceline.launch.engines import RayWish
from paceline.launch.engines.ray.engine import RayEngine
from paceline.launch.hosts import Capacity
from paceline.watch.summary import Ending, Verdict
from tests.cli.running import Runs, exit_code

CUTS = ("--checkpoints", "cuts")


class Cluster:
    """A cluster of three machines with CPUs."""

    node_ip = "127.0.0.1"

    def num_machines(self) -> int:
        return 3


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runs:
    """In a folder with a script, connected to a cluster."""

    def connect(wish: RayWish, say: Callable[[str], None]) -> RayEngine:
        say("connected")
        return RayEngine(wish, Cluster())  # type: ignore[arg-type]

    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    stand_in = Runs(Verdict(Ending.TRAINED, ""))
    monkeypatch.setattr(run_command, "wait_local_run", stand_in)
    monkeypatch.setattr(machines, "connect_ray", connect)
    return stand_in


def test_the_launcher_leads_and_listens_where_ray_knows_its_machine(
    monkeypatch: pytest.MonkeyPatch, runs: Runs
) -> None:
    options = ["--engine", "ray", "--trainers-per-host", 2, *CUTS]

    assert exit_code(monkeypatch, "run", *options, "train.py") == 0

    listening = runs.reach.listening
    assert listening is not None
    assert str(listening.address) == "tcp:127.0.0.1:0"
    assert listening.capacity == Capacity(0, 0)
    job = JobConfig(run="r", trainers=3, most_trainers=9, servers=2)
    assert listening.begins_with(job) == 1 + 2 + 2
    assert listening.options() == ["--engine", "ray", "--trainers-per-host", "2"]


def test_another_address_may_be_given(monkeypatch: pytest.MonkeyPatch, runs: Runs) -> None:
    options = ["--engine", "ray", "--listen", "127.0.0.2:7070", *CUTS]

    assert exit_code(monkeypatch, "run", *options, "train.py") == 0

    assert runs.reach.listening is not None
    assert str(runs.reach.listening.address) == "tcp:127.0.0.2:7070"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--engine", "rey"], "--engine: expected one of ray, slurm, got 'rey'"),
        (["--engine", "ray", "--hosts", "a"], "both say which machines come"),
        (["--no-upload"], "belong to --engine ray"),
        (["--trainers-per-host", "2"], "is for jobs that others join"),
        (["--engine", "ray", "--trainer-resources", "GPU"], "such as CPU=2,GPU=1"),
        (["--engine", "ray", "--ports", "7"], "expected a range of ports"),
        (["--engine", "ray"], "name a place that all machines reach"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    runs: Runs,
    options: list[str],
    told: str,
) -> None:
    assert exit_code(monkeypatch, "run", *options, "train.py") == 2

    assert told in capfd.readouterr().err
    assert runs.reach.listening is None

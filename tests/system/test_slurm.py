"""Jobs in allocations of SLURM: they begin, are told to leave, go on, and count exactly."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.launch.job import JobDir
from tests.system.hosts import COUNTING, PACELINE, within
from tests.system.slurm_rig import Slurm, slurm, why_no_slurm

pytestmark = [
    *(pytest.mark.slow, pytest.mark.system, pytest.mark.around, pytest.mark.timeout(0)),
    pytest.mark.skipif(bool(why_no_slurm()), reason=why_no_slurm()),
]
BEGIN_S = 180.0  # three machines import torch at once, on two cores
LONG = ("--records", "24000", "--ids", "200", "--epochs", "1", "--sleep-ms", "40")
SHORT = ("--records", "3200", "--ids", "200", "--epochs", "1")
OPTIONS = ("--pace", "async", "--checkpoint-every", "2s")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Slurm]:
    """Three machines, n1 to n3."""
    place = tmp_path / "cluster"
    place.mkdir()
    with slurm(place) as one:
        yield one


def written(folder: Path, name: str, *words: str) -> Path:
    """What ``paceline script slurm`` writes, in a file."""
    command = [*PACELINE, "script", "slurm", *words]
    wrote = subprocess.run(command, capture_output=True, text=True, check=True)
    path = folder / name
    path.write_text(wrote.stdout)
    return path


class Submitted:
    """A counting job of SLURM's, and what has come of it."""

    def __init__(
        self,
        cluster: Slurm,
        folder: Path,
        *words: str,
        script: tuple[str, ...],
        **more: str,
    ) -> None:
        self.cluster, self.folder = cluster, folder
        self.verdict = folder / "verdict.json"
        counting = (str(COUNTING), *script, "--out", str(self.verdict))
        batch = written(folder, "job.sbatch", *words, *counting)
        self.output = folder / "job.txt"
        where = (f"--output={self.output}", f"--chdir={folder}")
        self.id = cluster.submit(batch, *where, **more)
        self.job = JobDir(folder / "runs" / f"slurm-{self.id}")

    def said(self) -> str:
        """What the launcher has said so far."""
        return self.output.read_text() if self.output.exists() else ""

    def records(self) -> int:
        """Records that have counted in some turn, as its events tell."""
        if not self.job.events.exists():
            return 0
        return len(
            [1 for line in self.job.events.read_text().splitlines() if "lease" in line]
        )

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What has happened of one kind."""
        if not self.job.events.exists():
            return []
        lines = self.job.events.read_text().splitlines()
        told = [json.loads(line) for line in lines if line.endswith("}")]
        return [event for event in told if event.get("event") == kind]

    def wait_state(self, state: str, seconds: float) -> None:
        within(seconds, f"{state}: {self.said()}", lambda: self._is(state))

    def wait_trains(self) -> None:
        within(BEGIN_S, "a checkpoint is there", lambda: bool(self.events("cut")))

    def is_exact(self) -> bool:
        return bool(json.loads(self.verdict.read_text())["exact"])

    def _is(self, state: str) -> bool:
        now = self.cluster.job(self.id).state
        assert state in {now, "PENDING"} or now not in {"FAILED", "CANCELLED"}, self.said()
        return now == state


def test_three_machines_of_an_allocation_count_exactly(
    cluster: Slurm, tmp_path: Path
) -> None:
    sizes = ("--nodes", "3", "--", "--trainers", "3", "--servers", "3", *OPTIONS)
    job = Submitted(cluster, tmp_path, *sizes, script=SHORT)

    job.wait_state("COMPLETED", BEGIN_S)

    assert job.is_exact()
    for name in ("n2", "n3"):
        assert f"has joined: {name}, tcp:" in job.said()
    said = job.job.log("srun").read_text()
    assert said.count("paceline: the job is over") == 2
    assert "has ended" not in job.said()

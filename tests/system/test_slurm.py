"""Jobs in allocations of SLURM: they begin, are told to leave, go on, and count exactly."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from paceline.launch.job import JobDir
from tests.system.hosts import COUNTING, PACELINE, within
from tests.system.slurm_rig import Slurm, slurm, why_no_slurm

pytestmark = [
    *(pytest.mark.slow, pytest.mark.system, pytest.mark.around, pytest.mark.timeout(0)),
]
BEGIN_S = 180.0  # three machines import torch at once, on two cores
LONG = ("--records", "12000", "--ids", "200", "--epochs", "1", "--sleep-ms", "40")
VERY_LONG = (*LONG, "--epochs", "100")
SHORT = ("--records", "3200", "--ids", "200", "--epochs", "1")
OPTIONS = ("--pace", "async", "--checkpoint-every", "2s")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Slurm]:
    """Three machines, n1 to n3."""
    if why := why_no_slurm():
        pytest.skip(why)
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
        self, cluster: Slurm, folder: Path, *words: str, script: tuple[str, ...]
    ) -> None:
        self.cluster, self.folder = cluster, folder
        self.verdict = folder / "verdict.json"
        counting = (str(COUNTING), *script, "--out", str(self.verdict))
        batch = written(folder, "job.sbatch", *words, *counting)
        self.output = folder / "job.txt"
        self.id = cluster.submit(batch, f"--output={self.output}", f"--chdir={folder}")
        self.job = JobDir(folder / "runs" / f"slurm-{self.id}")

    def said(self) -> str:
        """What the launcher has said so far."""
        return self.output.read_text() if self.output.exists() else ""

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What has happened of one kind, in all turns."""
        if not self.job.events.exists():
            return []
        lines = self.job.events.read_text().splitlines()
        told = [json.loads(line) for line in lines if line.endswith("}")]
        return [event for event in told if event["event"] == kind]

    def records(self) -> int:
        """Records that have counted."""
        told = [*self.events("progress"), *self.events("closed")]
        return max((event["records"] for event in told), default=0)

    def num_trained(self) -> int:
        """How many trainers have had tasks."""
        return len({event["trainer"] for event in self.events("LeaseGranted")})

    def wait_state(self, *states: str, seconds: float = BEGIN_S) -> None:
        """Wait until it stands so; a failed one does not come to stand otherwise."""
        last = {*states, "FAILED", "CANCELLED", "TIMEOUT", "COMPLETED"}
        told = f"{states}"
        now = within(seconds, told, lambda: self._state(last))
        assert now in states, f"{now}: {self.said()}"

    def wait_trains(self) -> None:
        """Wait until some records count."""
        within(BEGIN_S, "a few records count", lambda: self.records() > 100)

    def start_now(self) -> None:
        """Have a requeued job begin, which SLURM holds back for two minutes."""
        self.cluster.run("scontrol", "update", f"JobId={self.id}", "StartTime=now")

    def is_exact(self) -> bool:
        """Whether every record has counted once, over all turns."""
        return bool(json.loads(self.verdict.read_text())["exact"])

    def _state(self, states: set[str]) -> str:
        now = self.cluster.job(self.id).state
        return now if now in states else ""


def test_three_machines_of_an_allocation_count_exactly(
    cluster: Slurm, tmp_path: Path
) -> None:
    sizes = ("--nodes", "3", "--", "--trainers", "3", "--servers", "3", *OPTIONS)
    job = Submitted(cluster, tmp_path, *sizes, script=SHORT)

    job.wait_state("COMPLETED")

    assert job.is_exact()
    for name in ("n2", "n3"):
        assert f"has joined: {name}, tcp:" in job.said()
    said = job.job.log("srun").read_text()
    assert said.count("paceline: the job is over") == 2
    assert "has ended" not in job.said()


def test_a_storm_of_signals_is_one_leave_and_one_checkpoint(
    cluster: Slurm, tmp_path: Path
) -> None:
    never = ("--pace", "async", "--checkpoint-every", "off")
    sizes = ("--nodes", "2", "--sbatch=--no-requeue", "--", "--servers", "2", *never)
    job = Submitted(cluster, tmp_path, *sizes, "--trainers", "2", script=LONG)
    job.wait_trains()
    before = len(job.events("CutCommitted"))

    for name in ("TERM", "CONT", "TERM", "USR1"):
        cluster.run("scancel", f"--signal={name}", job.id)
    job.wait_state("FAILED", seconds=60.0)

    assert len(job.events("CutCommitted")) == before + 1
    assert job.said().count("interrupted: trainers leave") == 1
    assert "interrupted: " in job.said()
    summary = json.loads(job.job.summary.read_text())
    assert summary["ending"] == "interrupted"
    assert summary["records"] == job.records()
    assert "go on with: paceline run --resume --job-dir" in job.said()
    assert "--engine slurm" in job.said()
    exits = cluster.run("scontrol", "show", "job", "--oneliner", job.id)
    assert " ExitCode=75:0 " in exits
    assert "is lost" not in job.said()


def test_a_job_that_is_preempted_goes_on_in_its_next_turn_and_counts_exactly(
    cluster: Slurm, tmp_path: Path
) -> None:
    sizes = ("--nodes", "3", "--", "--trainers", "2", "--servers", "2", *OPTIONS)
    job = Submitted(cluster, tmp_path, *sizes, script=LONG)
    job.wait_trains()
    urgent = tmp_path / "urgent.sh"
    urgent.write_text("#!/bin/bash\nexit 0\n")

    other = cluster.submit(
        urgent, "--partition=urgent", "--nodes=3", "--exclusive", "--output=/dev/null"
    )
    job.wait_state("PENDING")
    left = job.records()
    told = "the urgent one has had its turn"
    within(60.0, told, lambda: cluster.job(other).state == "COMPLETED")
    job.start_now()
    job.wait_state("COMPLETED", seconds=2 * BEGIN_S)

    assert cluster.job(job.id).restarts == 1
    assert job.is_exact()
    assert 100 < left < 12000
    assert "resumed, " in job.said()
    assert job.said().count("interrupted: trainers leave") == 1


def test_a_host_is_lost_alone_and_a_launcher_takes_all_with_it(
    cluster: Slurm, tmp_path: Path
) -> None:
    sizes = ("--nodes", "3", "--", "--trainers", "2", "--servers", "1", *OPTIONS)
    job = Submitted(cluster, tmp_path, *sizes, script=VERY_LONG)
    job.wait_trains()

    kill_of(cluster, 3, " host --join ")

    within(30.0, "it is lost", lambda: re.search(r"\(n3, tcp:.* is lost", job.said()))
    before = job.records()
    within(60.0, "the others go on", lambda: job.records() > before)
    assert "has ended" not in job.said()

    kill_of(cluster, 1, " run --engine slurm ")

    within(20.0, "nothing of it is left", lambda: not left(cluster))
    job.wait_state("FAILED", seconds=60.0)


def test_a_machine_without_the_program_fails_the_job_at_once_by_name(
    tmp_path: Path,
) -> None:
    """The one step for all machines goes on meanwhile."""
    if why := why_no_slurm():
        pytest.skip(why)
    place = tmp_path / "cluster"
    place.mkdir()
    with slurm(place, bare={3: Path(sys.executable).parent}) as cluster:
        words = ("--nodes", "3", "--", "--trainers", "3", "--first-batch", "10m", *OPTIONS)
        job = Submitted(cluster, tmp_path, *words, script=SHORT)

        job.wait_state("FAILED", seconds=90.0)

    assert "n3 is gone, srun says: Exited with exit code 2: slurmstepd-n3" in job.said()
    assert "failed: the job cannot begin with as many machines as it is to" in job.said()


@pytest.mark.parametrize("lost", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_a_machine_that_is_down_costs_a_turn_and_no_record(
    cluster: Slurm, tmp_path: Path, lost: int
) -> None:
    """SLURM knows late; until then the job goes on, unless its first machine is lost."""
    sizes = ("--nodes", "2", "--", "--trainers", "2", "--servers", "1", *OPTIONS)
    job = Submitted(cluster, tmp_path, *sizes, script=LONG)
    job.wait_trains()

    cluster.machines[lost].kill()

    job.wait_state("PENDING", seconds=90.0)
    job.start_now()
    job.wait_state("COMPLETED", seconds=2 * BEGIN_S)
    assert cluster.job(job.id).restarts == 1
    assert "goes on from checkpoint" in job.said()
    assert job.is_exact()


def test_a_job_that_is_cancelled_stays_so_and_leaves_nothing(
    cluster: Slurm, tmp_path: Path
) -> None:
    sizes = ("--nodes", "2", "--", "--trainers", "2", "--servers", "1", *OPTIONS)
    job = Submitted(cluster, tmp_path, *sizes, script=LONG)
    job.wait_trains()

    cluster.run("scancel", job.id)

    job.wait_state("CANCELLED", seconds=60.0)
    within(30.0, "nothing of it is left", lambda: not left(cluster))
    assert cluster.job(job.id) == ("CANCELLED", 0, "None")


def left(cluster: Slurm) -> list[str]:
    """What of paceline runs on any node."""
    nodes = list(cluster.machines)[1:]
    pids = [pid for machine in nodes for pid in machine.processes()]
    return [words for pid in pids if "paceline" in (words := words_of(pid))]


def kill_of(cluster: Slurm, node: int, words: str) -> None:
    """Kill the process of a node that was started by some words."""
    pids = cluster.machines[node].processes()
    [pid] = [pid for pid in pids if words in words_of(pid) and "srun" not in words_of(pid)]
    os.kill(pid, signal.SIGKILL)


def words_of(pid: int) -> str:
    """The command line of a process; empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def test_a_job_array_of_one_machine_each_joins_and_leaves(
    cluster: Slurm, tmp_path: Path
) -> None:
    """The job itself has one machine, and one trainer; each that comes has another one.

    Who is told to leave does, and comes again.
    """
    whole = "--sbatch=--exclusive"
    sizes = ("--trainers", "1:3", "--trainers-per-host", "1", "--servers", "1")
    others = ("--await-hosts", "1")
    job = Submitted(cluster, tmp_path, whole, "--", *sizes, *others, *OPTIONS, script=LONG)
    job.wait_trains()
    assert job.num_trained() == 1
    join = ("--join", str(job.job.path), whole, "--array", "0-1")
    more = written(
        tmp_path, "more.sbatch", *join, "--", "--servers", "0", "--trainers", "1"
    )
    output = f"--output={tmp_path}/host.%a.txt"
    array = cluster.submit(more, output, f"--chdir={tmp_path}")
    within(BEGIN_S, "each has a trainer that trains", lambda: job.num_trained() == 3)
    assert_said_by(tmp_path, "joined as host-[12]:", 2)

    cluster.run("scancel", "--signal=TERM", f"{array}_0")

    gone = "was told to stop; with it trainer-"
    within(30.0, "it leaves, with its trainer", lambda: gone in job.said())
    first = f"{array}_0"
    within(30.0, "it is requeued", lambda: cluster.job(first).state == "PENDING")
    cluster.run("scontrol", "update", f"JobId={first}", "StartTime=now")
    within(BEGIN_S, "it comes again", lambda: "host-3 has joined" in job.said())
    job.wait_state("COMPLETED")
    assert job.is_exact()
    for task in (first, f"{array}_1"):
        within(30.0, "it ends", lambda task=task: cluster.job(task).state == "COMPLETED")
    assert_said_by(tmp_path, "the job is over", 2)
    assert_said_by(tmp_path, "the job goes on without it", 1)


def assert_said_by(folder: Path, pattern: str, count: int) -> None:
    """So often the hosts of a job array have said something."""
    said = "".join(path.read_text() for path in folder.glob("host.*.txt"))
    assert len(re.findall(pattern, said)) == count, said

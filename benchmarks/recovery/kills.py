"""Kills a role of a running job again and again, and says when, and what came of it.

A kill waits until every trainer has stepped since the last one, and then a random (seeded)
moment, so that kills meet steps wherever they are.

Waits: for the job, with a deadline. The main thread; one thread beside it kills.
"""

import os
import signal
import threading
import time
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, final

import msgspec
import psutil

from benchmarks.harness.processes import job_config, wait_job
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.processes.forkserver import ForkServer
from paceline.timing import Deadline, SystemClock

SCRIPT = Path(__file__).with_name("job.py")
POLL_S = 0.05
SETTLED_S = 4.0  # between a kill and the next one, at least
READY_S = 180.0  # for all trainers to step again
LIMIT_S = 3600.0


class KillPlan(NamedTuple):
    """Who is killed, how often, in which job."""

    pace: str
    victims: tuple[str, ...]  # in turn
    times: int
    trainers: int
    arguments: tuple[str, ...] = ()


class Kill(NamedTuple):
    """A role was killed at a moment (seconds since 1970)."""

    role: str
    moment: float


class Killed(NamedTuple):
    """What was done, and all that the job said."""

    kills: list[Kill]
    steps: dict[str, list[float]]  # {trainer: when its steps were over}
    events: list[dict[str, Any]]
    cut_bytes: int  # of the largest cut: what a server reads to come back


@final
class _Killer:
    """Kills beside the launcher's thread, then lets the job end."""

    def __init__(self, plan: KillPlan, folder: Path, forks: ForkServer) -> None:
        self.kills: list[Kill] = []
        self._error: Exception | None = None  # read when the thread has ended
        self._plan, self._folder, self._forks = plan, folder, forks
        self._random = Random(0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="killer")

    def __enter__(self) -> "_Killer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            for number in range(self._plan.times):
                role = self._plan.victims[number % len(self._plan.victims)]
                self._wait_stepping(self.kills[-1].moment if self.kills else 0.0)
                self._over.wait(self._random.uniform(0.5, 1.5))
                self._kill(role)
                self._over.wait(SETTLED_S)
            self._wait_stepping(self.kills[-1].moment)
        except Exception as error:  # noqa: BLE001  (raised where the thread is joined)
            self._error = error
            os.kill(os.getpid(), signal.SIGINT)  # the launcher ends the job
        (self._folder / "stop").touch()

    def _wait_stepping(self, since: float) -> None:
        """Until every trainer has finished a step after ``since``."""
        deadline = Deadline(SystemClock(), READY_S)
        while not self._over.wait(POLL_S):
            stepping = set()
            for path in self._folder.glob("steps-*"):
                about = path.stat()
                if about.st_size and about.st_mtime > since + POLL_S:
                    stepping.add(path.name.rpartition("-")[0])
            if len(stepping) == self._plan.trainers:
                return
            if deadline.is_over():
                raise TimeoutError(
                    f"expected steps of {self._plan.trainers} trainers within "
                    f"{READY_S:g} s, got those of {sorted(stepping)}: see the job's logs"
                )
        raise TimeoutError("the job ended before all kills")

    def _kill(self, role: str) -> None:
        for process in psutil.Process(self._forks.pid).children():
            if process.name() == role and process.status() != psutil.STATUS_ZOMBIE:
                moment = time.time()
                process.kill()
                self.kills.append(Kill(role, moment))
                return
        raise LookupError(f"there is no {role} to kill")


def wait_killed(plan: KillPlan, folder: Path, forks: ForkServer) -> Killed:
    """Run the job in a fresh folder until all kills are done.

    Raises:
        RuntimeError: the job failed.
        Exception: what kept the killer from killing.
    """
    folder.mkdir()
    job = JobDir(folder / "job")
    config = job_config(plan.pace, plan.trainers)
    script = UserScript(str(SCRIPT), ("--folder", str(folder), *plan.arguments))
    threads = {"OMP_NUM_THREADS": "1"}
    with _Killer(plan, folder, forks) as killer:
        wait_job(forks, config, script, threads, folder)
    cuts = [sum(f.stat().st_size for f in cut.iterdir()) for cut in _cuts(job)]
    return Killed(killer.kills, read_steps(folder), read_events(job.events), max(cuts))


def _cuts(job: JobDir) -> set[Path]:
    return {file.parent for file in job.checkpoints.rglob("*") if file.is_file()}


def read_steps(folder: Path) -> dict[str, list[float]]:
    """{trainer: when its steps were over}, of all its processes; without torn lines."""
    steps: dict[str, list[float]] = {}
    for path in folder.glob("steps-*"):
        trainer = path.name.removeprefix("steps-").rpartition("-")[0]
        lines = path.read_text().splitlines(keepends=True)
        moments = [float(line) for line in lines if line.endswith("\n")]
        steps.setdefault(trainer, []).extend(moments)
    return {trainer: sorted(moments) for trainer, moments in steps.items()}


def read_events(path: Path) -> list[dict[str, Any]]:
    """All whole lines of an ``events.jsonl``."""
    lines = path.read_bytes().splitlines()
    return [msgspec.json.decode(line) for line in lines if line.endswith(b"}")]

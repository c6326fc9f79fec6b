"""A counting job under kills, frozen trainers and armed failpoints: exact, or it says so.

A plan runs ``paceline run`` on a script that counts, in real processes. While it runs,
processes are killed at random (seeded) moments, failpoints fire in the services, and a
trainer that a failpoint froze is woken after it has been given up. The report holds the
script's verdict, and the faults as they really happened: a run without faults proves
nothing.

Waits: for the job, with a deadline. One caller at a time per job folder.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple, final

import msgspec
import psutil

from paceline.errors import JobFailed
from paceline.failpoints import ARM_VARIABLE
from paceline.launch.folder import JobDir
from paceline.timing import Deadline, SystemClock

POLL_S = 0.05
COMMAND = "from paceline.cli.main import main; main()"


class RandomKills(NamedTuple):
    """``number`` times SIGKILL within ``within_s`` of the first lease, on these kinds."""

    seed: int
    number: int
    within_s: float
    kinds: tuple[str, ...] = ("trainer", "coordinator")


class ChaosPlan(NamedTuple):
    """One run: the job, and what goes wrong in it.

    ``failpoints`` is the text of ``PACELINE_FAILPOINTS``; ``arguments`` go to the script.
    """

    script: Path
    pace: str
    arguments: tuple[str, ...] = ()
    failpoints: str = ""
    kills: RandomKills | None = None
    trainers: int = 3
    servers: int = 2
    timeout_s: float = 4.0
    cut_every_s: float = 4.0
    limit_s: float = 300.0


class ChaosReport(NamedTuple):
    """What came of a plan."""

    verdict: dict[str, object]
    summary: dict[str, object]
    faults: dict[str, int]  # {failpoint or "kill <kind>": times}
    counters: dict[str, int]  # of servers and coordinator at the end
    returns: list[int]  # cuts returned to
    seconds: float

    def is_exact(self) -> bool:
        """Whether every record counted exactly once."""
        return bool(self.verdict.get("exact"))


@final
class _Run:
    """A plan while it runs."""

    def __init__(self, plan: ChaosPlan, job: JobDir) -> None:
        self._plan, self._job = plan, job
        self._clock = SystemClock()
        self._kills: Counter[str] = Counter()
        self._frozen_s: dict[int, float] = {}  # {pid: when it was seen frozen}
        self._due_s: list[float] = []
        self._random = Random(plan.kills.seed if plan.kills else 0)

    def wait(self) -> int:
        plan = self._plan
        command = [
            *(sys.executable, "-c", COMMAND, "run", "--json"),
            *("--trainers", str(plan.trainers), "--servers", str(plan.servers)),
            *("--pace", plan.pace, "--job-dir", str(self._job.path)),
            *("--timeout", f"{plan.timeout_s:g}s"),
            *("--checkpoint-every", f"{plan.cut_every_s:g}s"),
            *(str(plan.script), *plan.arguments),
        ]
        environment = {**os.environ, ARM_VARIABLE: plan.failpoints}
        output = self._job.path.with_suffix(".out")
        with output.open("w") as out:
            launcher = subprocess.Popen(
                command, env=environment, stdout=out, stderr=subprocess.STDOUT
            )
            deadline = Deadline(self._clock, plan.limit_s)
            try:
                while launcher.poll() is None:
                    if deadline.is_over():
                        tail = output.read_text()[-2000:]
                        raise JobFailed(f"not done in {plan.limit_s:g} s: {tail}")
                    self._look(launcher.pid)
                    time.sleep(POLL_S)
            finally:
                if launcher.poll() is None:
                    launcher.send_signal(signal.SIGINT)
                    launcher.wait(20.0)
        return launcher.returncode

    def faults(self) -> dict[str, int]:
        folder = self._job.path / "failpoints"
        fired = folder.iterdir() if folder.is_dir() else ()
        names = Counter(path.name.rsplit(".", 1)[0] for path in fired)
        return {**names, **{f"kill {kind}": n for kind, n in self._kills.items()}}

    def _look(self, launcher: int) -> None:
        for process in _children(launcher):
            self._thaw(process)
        kills = self._plan.kills
        if kills is None or not _happened(self._job, "LeaseGranted"):
            return
        now = self._clock.now_s()
        if not self._due_s and not self._kills:
            moments = [self._random.random() * kills.within_s for _ in range(kills.number)]
            self._due_s = [now + moment for moment in sorted(moments)]
        if self._due_s and self._due_s[0] <= now and self._kill_one(launcher, kills.kinds):
            self._due_s.pop(0)

    def _thaw(self, process: psutil.Process) -> None:
        """Wake a frozen process, once it must have been given up."""
        try:
            is_frozen = process.status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return
        now = self._clock.now_s()
        if not is_frozen:
            self._frozen_s.pop(process.pid, None)
        elif now - self._frozen_s.setdefault(process.pid, now) > self._plan.timeout_s + 1.5:
            process.send_signal(signal.SIGCONT)
            self._kills["SIGCONT after loss"] += 1

    def _kill_one(self, launcher: int, kinds: tuple[str, ...]) -> bool:
        victims = []
        for process in _children(launcher):
            try:
                role = process.environ().get("PACELINE_ROLE", "")
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            kind = role.rsplit("-", 1)[0]
            if kind in kinds:
                victims.append((role, kind, process))
        if not victims:
            return False
        _, kind, victim = self._random.choice(sorted(victims, key=lambda v: v[0]))
        try:
            victim.kill()
        except psutil.NoSuchProcess:
            return False
        self._kills[kind] += 1
        return True


def wait_chaos(plan: ChaosPlan, folder: Path) -> ChaosReport:
    """Run a plan in an empty folder and report.

    Raises:
        JobFailed: the job failed, or did not end within the plan's limit.
    """
    job = JobDir(folder / "job")
    verdict = folder / "verdict.json"
    plan = plan._replace(arguments=(*plan.arguments, "--out", str(verdict)))
    clock = SystemClock()
    started_s = clock.now_s()
    run = _Run(plan, job)
    code = run.wait()
    seconds = clock.now_s() - started_s
    if not verdict.is_file():
        tail = job.path.with_suffix(".out").read_text()[-2000:]
        raise JobFailed(f"the counting job ended with {code} and no verdict: {tail}")
    events = _events(job)
    closed = [event for event in events if event["event"] == "closed"]
    return ChaosReport(
        verdict=json.loads(verdict.read_text()),
        summary=json.loads(job.summary.read_text()),
        faults=run.faults(),
        counters=dict(closed[-1]["counters"]) if closed else {},  # type: ignore[call-overload]  # a JSON object
        returns=[int(str(e["cut"])) for e in events if e["event"] == "Returned"],
        seconds=seconds,
    )


def _children(launcher: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(launcher).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _events(job: JobDir) -> list[dict[str, object]]:
    if not job.events.is_file():
        return []
    lines = job.events.read_bytes().splitlines()
    return [msgspec.json.decode(line) for line in lines if line.endswith(b"}")]


def _happened(job: JobDir, event: str) -> bool:
    return job.events.is_file() and f'"{event}"'.encode() in job.events.read_bytes()

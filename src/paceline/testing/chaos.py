"""A counting job under kills, frozen trainers and armed failpoints: exact, or it says so.

A plan runs a script that counts, in real processes as `paceline run` does. While it runs,
processes are killed at random (seeded) moments, failpoints fire in the services, a
trainer that a failpoint froze is woken after it has been given up, and the job is scaled
and its trainers are told to leave every few seconds. The report holds the
script's verdict, and the faults as they really happened: a run without faults proves
nothing.

Waits: for the job, with a deadline. One caller at a time per job folder.
"""

import json
import os
import signal
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple, final

import msgspec
import psutil

from paceline.config import JobConfig, parse_pace
from paceline.errors import CheckpointCorrupt, JobFailed, TransportError, UsageError
from paceline.failpoints import ARM_VARIABLE
from paceline.launch.job import JobDir, Transport, UserScript, call_until_done
from paceline.launch.local import LocalRun, Reach, fresh_run_id, wait_local_run
from paceline.launch.processes import ForkServer, Interrupts
from paceline.launch.supervise import RESTARTS_IN_A_ROW
from paceline.messages.watching import Scale
from paceline.store.blobs import BlobStore
from paceline.store.cuts import list_cuts, read_manifest
from paceline.timing import Deadline, SystemClock
from paceline.watch.progress import open_show

POLL_S = 0.2


class RandomKills(NamedTuple):
    """``number`` times SIGKILL within ``within_s`` of the first lease, on these kinds.

    ``damages``: with each a byte of the newest cut turns, once there is an older one.
    """

    seed: int
    number: int
    within_s: float
    kinds: tuple[str, ...] = ("trainer", "coordinator")
    damages: bool = False


class ChaosPlan(NamedTuple):
    """One run: the job, and what goes wrong in it.

    ``failpoints`` is the text of ``PACELINE_FAILPOINTS``; ``arguments`` go to the script.
    Every ``scale_every_s`` (0: never) the job is scaled to between ``trainers`` and
    ``most_trainers``, or one trainer is told to leave and comes back.
    """

    script: Path
    pace: str
    arguments: tuple[str, ...] = ()
    failpoints: str = ""
    kills: RandomKills | None = None
    trainers: int = 3
    most_trainers: int = 0
    scale_every_s: float = 0.0
    servers: int = 2
    timeout_s: float = 10.0
    cut_every_s: float = 4.0
    limit_s: float = 300.0
    transport: Transport = "unix"


class ChaosReport(NamedTuple):
    """What came of a plan."""

    verdict: dict[str, object]
    summary: dict[str, object]
    faults: dict[str, int]  # {failpoint, "kill <kind>", "scaled", ...: times}
    counters: dict[str, int]  # of servers and coordinator at the end
    returns: list[int]  # cuts returned to
    seconds: float

    def is_exact(self) -> bool:
        """Whether every record counted exactly once."""
        return bool(self.verdict.get("exact"))


@final
class _Damage:
    """Turns bytes of newest cuts in a folder, as a bad disk does, and remembers which."""

    def __init__(self, cuts: Path) -> None:
        self._store = BlobStore(str(cuts))
        self.folders: list[str] = []  # of damaged cuts, in order

    def newest(self) -> bool:
        """Turn a byte in every file of the newest cut; false if there is none older.

        A cut that ends the stage of the last loop should not be damaged: trainers that
        have left do not come back to what lies before it.
        """
        folders = [cut.folder for cut in list_cuts(self._store)][-2:]
        if len(folders) < 2 or set(folders) & set(self.folders):
            return False
        try:
            entries = read_manifest(self._store, folders[1]).entries()
        except CheckpointCorrupt:  # it was swept away meanwhile
            return False
        for entry in entries:
            path = Path(self._store.url) / folders[1] / entry.name
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        self.folders.append(folders[1])
        return True


@final
class _Misfortune:
    """What goes wrong, while it goes wrong: one thread beside the launcher's."""

    def __init__(self, plan: ChaosPlan, job: JobDir, forks: ForkServer) -> None:
        self._plan, self._job, self._forks = plan, job, forks
        self._clock = SystemClock()
        self._faults: Counter[str] = Counter()
        self._next_scale_s = 0.0
        self._frozen_s: dict[int, float] = {}  # {pid: when it was seen frozen}
        self._has_begun = False
        self._due_s: list[float] = []
        self._in_a_row: Counter[str] = Counter()  # {role: kills since records advanced}
        self._records = 0  # as of then
        self._damage = _Damage(job.checkpoints)
        self._random = Random(plan.kills.seed if plan.kills else 0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="misfortune")
        self._error: Exception | None = None  # read when the thread has ended
        self.is_late = False

    def __enter__(self) -> "_Misfortune":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def faults(self) -> dict[str, int]:
        folder = self._job.failpoints
        fired = folder.iterdir() if folder.is_dir() else ()
        names = Counter(path.name.rsplit(".", 1)[0] for path in fired)
        damaged = {"damaged cut": len(self._damage.folders)} if self._damage.folders else {}
        return {**names, **self._faults, **damaged}

    def _run(self) -> None:
        try:
            self._run_until_over()
        except Exception as error:  # noqa: BLE001  (raised again where the thread is joined)
            self._error = error
            # Nobody else would end the job in time; it may not even have begun.
            while not self._over.wait(POLL_S):
                os.kill(os.getpid(), signal.SIGINT)

    def _run_until_over(self) -> None:
        deadline = Deadline(self._clock, self._plan.limit_s)
        while not self._over.wait(POLL_S):
            self._look()
            if deadline.is_over():
                self.is_late = True
                os.kill(
                    os.getpid(), signal.SIGINT
                )  # once, twice: the launcher ends the job

    def _look(self) -> None:
        children = self._children()
        for process in children:
            self._thaw(process)
        if not _happened(self._job, "LeaseGranted"):
            return
        now = self._clock.now_s()
        if self._plan.scale_every_s and now >= self._next_scale_s:
            self._next_scale_s = now + self._plan.scale_every_s
            self._scale(children)
        kills = self._plan.kills
        if kills is None:
            return
        if not self._has_begun:
            self._has_begun = True
            moments = [self._random.random() * kills.within_s for _ in range(kills.number)]
            self._due_s = [now + moment for moment in sorted(moments)]
        if self._due_s and self._due_s[0] <= now and self._kill_one(children, kills.kinds):
            self._due_s.pop(0)

    def _children(self) -> list[psutil.Process]:
        try:
            return list(psutil.Process(self._forks.pid).children())
        except psutil.NoSuchProcess:
            return []

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
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)
                self._faults["awakened"] += 1

    def _scale(self, children: list[psutil.Process]) -> None:
        """Scale the job, or let one of its trainers be preempted."""
        if self._random.random() < 0.5:
            wanted = self._random.randint(self._plan.trainers, self._plan.most_trainers)
            with suppress(UsageError, TransportError):  # it is over, or being restarted
                call_until_done(self._job, Scale(trainers=wanted), self._clock)
                self._faults["scaled"] += 1
            return
        with suppress(psutil.NoSuchProcess, IndexError):
            trainers = [p for p in children if p.name().startswith("trainer")]
            self._random.choice(trainers).terminate()
            self._faults["preempted"] += 1

    def _kill_one(self, children: list[psutil.Process], kinds: tuple[str, ...]) -> bool:
        """Kill at random, but no role so often that the launcher must give the job up."""
        records = _counted(self._job)
        if records > self._records:
            self._in_a_row.clear()
        self._records = records
        victims = []
        for process in children:
            with suppress(psutil.NoSuchProcess):
                role = process.name()  # a role's process is named so
                is_spared = self._in_a_row[role] >= RESTARTS_IN_A_ROW - 1
                if role.partition("-")[0] not in kinds or is_spared or _is_dead(process):
                    continue
                victims.append((role, process))
        if not victims:
            return False
        role, victim = self._random.choice(sorted(victims, key=lambda v: v[0]))
        assert self._plan.kills is not None
        if self._plan.kills.damages and not self._damage.newest():
            return False
        try:
            victim.kill()
        except psutil.NoSuchProcess:
            return False
        self._faults[f"kill {role.partition('-')[0]}"] += 1
        self._in_a_row[role] += 1
        return True


def wait_chaos(plan: ChaosPlan, folder: Path, forks: ForkServer) -> ChaosReport:
    """Run a plan in an empty folder and report; the main thread.

    Raises:
        JobFailed: the job failed, or did not end within the plan's limit.
        Exception: what went wrong in doing wrong; the job was interrupted.
    """
    job = JobDir(folder / "job")
    verdict = folder / "verdict.json"
    config = JobConfig(
        run=fresh_run_id(),
        trainers=plan.trainers,
        most_trainers=plan.most_trainers,
        servers=plan.servers,
        pace=parse_pace(plan.pace),
        timeout_s=plan.timeout_s,
        cut_every_s=plan.cut_every_s,
    )
    script = UserScript(str(plan.script), (*plan.arguments, "--out", str(verdict)))
    environment = {**os.environ, ARM_VARIABLE: plan.failpoints}
    output = job.path.with_suffix(".out")
    # Misfortune interrupts the launcher, and the launcher alone: it may just be leaving.
    with (
        output.open("w") as out,
        Interrupts(),
        _Misfortune(plan, job, forks) as misfortune,
    ):
        show, clock = open_show(out), SystemClock()
        result = wait_local_run(
            LocalRun(config, script, job),
            show,
            clock,
            environment=environment,
            forks=forks,
            reach=Reach(plan.transport),
        )
        show.close()
    if misfortune.is_late or not verdict.is_file():
        why = f"not done in {plan.limit_s:g} s" if misfortune.is_late else "no verdict"
        tail = output.read_text()[-2000:]
        raise JobFailed(f"{why}: {result.verdict.reason}: {tail}")
    events = _events(job)
    closed = [event for event in events if event["event"] == "closed"]
    return ChaosReport(
        verdict=json.loads(verdict.read_text()),
        summary=json.loads(job.summary.read_text()),
        faults=misfortune.faults(),
        counters=dict(closed[-1]["counters"]) if closed else {},  # type: ignore[call-overload]  # a JSON object
        returns=[int(str(e["cut"])) for e in events if e["event"] == "Returned"],
        seconds=result.summary.seconds,
    )


def _is_dead(process: psutil.Process) -> bool:
    return bool(process.status() == psutil.STATUS_ZOMBIE)


def _events(job: JobDir) -> list[dict[str, object]]:
    if not job.events.is_file():
        return []
    lines = job.events.read_bytes().splitlines()
    return [msgspec.json.decode(line) for line in lines if line.endswith(b"}")]


def _counted(job: JobDir) -> int:
    """Records by the job's last progress line; 0 before there is one."""
    counts = [event["records"] for event in _events(job) if event["event"] == "progress"]
    return int(str(counts[-1])) if counts else 0


def _happened(job: JobDir, event: str) -> bool:
    return job.events.is_file() and f'"{event}"'.encode() in job.events.read_bytes()

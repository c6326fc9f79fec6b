"""Small disks, what may happen to them while a run goes on, and what users read then."""

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from paceline.timing import Deadline, SystemClock
from tests.system.events import events_of

SCRIPT = Path(__file__).parents[2] / "examples" / "counting" / "train.py"
CLOCK = SystemClock()
LIMIT_S = 300.0
PAGE = bytes(4096)


class Disk:
    """A small disk that can be filled to the last page."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._filler = place / "filler"
        self._is_forbidden = False

    def fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file:
            while True:
                try:
                    file.write(PAGE)
                except OSError as error:
                    if error.errno == errno.ENOSPC:
                        return
                    raise

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    def forbid(self) -> None:
        """Let it be read-only, whatever is open there already."""
        place = str(self.place)
        subprocess.run(["mount", "--bind", place, place], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        self._is_forbidden = True

    def allow(self) -> None:
        """Let it be written again."""
        if self._is_forbidden:
            subprocess.run(["umount", "-l", str(self.place)], check=True)
        self._is_forbidden = False

    def resize(self, size: str) -> None:
        command = ["mount", "-o", f"remount,size={size}", str(self.place)]
        subprocess.run(command, check=True)


Way = Literal["run", "python"]
MANY_IDS = 200_000  # 800 kB of dense values, and so a cut that does not fit


class Scene:
    """A run as its user has started it: its standard error, and what happens meanwhile."""

    def __init__(self, disk: Disk, folder: Path, way: Way, case: "Case") -> None:
        self.disk, self.case = disk, case
        self.job = (disk.place if case.disk == "job" else folder) / "job"
        self.shown, self.verdict = folder / "shown", folder / "verdict.json"
        script = [str(SCRIPT), *case.loop.split(), "--out", str(self.verdict)]
        if way == "python":
            command = [sys.executable, *script]
        else:
            place = ["--checkpoints", str(disk.place)] if case.disk == "place" else []
            options = [*place, *case.options.split()]
            pace = ["--pace", "sync:reduce=sum", "--trainers", "2"]
            job = ["--job-dir", str(self.job)]
            command = [*PACELINE, "run", *job, *pace, *options, *script]
        self.environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PACELINE_JOB_DIR": str(self.job),
        }
        for act in case.before:
            act(self)
        with self.shown.open("w") as shown, (folder / "output").open("w") as output:
            self.process = subprocess.Popen(
                command, env=self.environment, stdout=output, stderr=shown, cwd=folder
            )

    def play(self) -> int:
        """Let happen what is to happen, and the run come to its end; its exit code."""
        try:
            for act in self.case.acts:
                act(self)
            return self.process.wait(LIMIT_S)
        finally:
            self.process.kill()
            self.process.wait()
            heading = f"--- {self.case.name}: code {self.process.returncode}"
            print(f"\n{heading}\n{self.shown.read_text()}")  # noqa: T201  (what users read)

    def until(self, happened: Callable[[], bool]) -> None:
        deadline = Deadline(CLOCK, LIMIT_S)
        while not happened():
            assert self.process.poll() is None, self.shown.read_text()
            assert not deadline.is_over(), self.shown.read_text()
            time.sleep(0.05)

    def go_on(self) -> None:
        """Do as the last line says; every record has counted exactly once."""
        self.disk.allow()
        self.disk.resize("24m")
        self.disk.free()
        last = self.shown.read_text().splitlines()[-1]
        assert last.startswith("paceline: go on with: paceline run --resume"), last
        _, command = last.split("go on with: paceline ")
        done = subprocess.run(
            [*PACELINE, *shlex.split(command)],
            env=self.environment,
            cwd=self.shown.parent,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def is_exact(self) -> bool:
        return bool(json.loads(self.verdict.read_text())["exact"])


PACELINE = [sys.executable, "-m", "paceline.cli.main"]
Act = Callable[[Scene], object]


class Case(NamedTuple):
    """What happens to which disk, and what is read then, in this order."""

    name: str
    disk: Literal["job", "place"]
    acts: tuple[Act, ...]
    code: int
    reads: tuple[str, ...]
    before: tuple[Act, ...] = ()
    options: str = ""
    loop: str = "--records 3200 --ids 100 --epochs 1 --sleep-ms 15"


def fill(scene: Scene) -> None:
    scene.disk.fill()


def free(scene: Scene) -> None:
    scene.disk.free()


def press_ctrl_c(scene: Scene) -> None:
    scene.process.send_signal(signal.SIGINT)


def forbid(scene: Scene) -> None:
    scene.disk.forbid()


def allow(scene: Scene) -> None:
    scene.disk.allow()


def has(size: str) -> Act:
    return lambda scene: scene.disk.resize(size)


def trains(scene: Scene) -> None:
    scene.until(lambda: len(events_of(scene.job, "LeaseGranted")) >= 4)


def lasts(seconds: float) -> Act:
    return lambda _: time.sleep(seconds)


def is_read(text: str, times: int = 1) -> Act:
    return lambda scene: scene.until(lambda: scene.shown.read_text().count(text) >= times)


JOB_FULL = "waiting for space on the disk of"
AGAIN = "again: the job goes on"
NO_CUT, CUTS_AGAIN = "no checkpoint can be written", "checkpoints are written again"
FIRST_CUT = "the first checkpoint cannot be written"
LONG = "--records 16000 --ids 100 --epochs 1 --sleep-ms 50"
BIG = f"--records 320 --ids {MANY_IDS} --epochs 1"
EVERY = "--checkpoint-every 2s"

FROM_START = [
    Case(
        "job folder full from the start",
        "job",
        (),
        1,
        ("cannot write in the job folder", "the disk is full"),
        before=(fill,),
    ),
    Case(
        "job folder read-only from the start",
        "job",
        (),
        1,
        ("cannot write in the job folder", "the disk is read-only"),
        before=(forbid,),
    ),
]
AT_ONCE = [
    Case(
        "first checkpoint does not fit",
        "job",
        (),
        1,
        ("failed: ", FIRST_CUT, "the disk is full", "go on with: "),
        before=(has("600k"),),
        loop=BIG,
    ),
    Case(
        "job folder full, then Ctrl-C",
        "job",
        (trains, fill, is_read(JOB_FULL), press_ctrl_c),
        75,
        (JOB_FULL, "nothing can be saved", "interrupted; ", JOB_FULL, "go on with: "),
    ),
]
PLACE_AT_ONCE = [
    Case(
        "place full from the start",
        "place",
        (),
        1,
        ("cannot write run-000001.json", "the disk is full"),
        before=(fill,),
    ),
    Case(
        "place read-only from the start",
        "place",
        (),
        1,
        ("cannot write run-000001.json", "the disk is read-only"),
        before=(forbid,),
    ),
    Case(
        "place too small for the first checkpoint",
        "place",
        (),
        1,
        (NO_CUT, "failed: ", FIRST_CUT, "the disk is full", "go on with: "),
        before=(has("600k"),),
        loop=BIG,
    ),
]
IN_TIME = [
    Case(
        "job folder full for 15 s",
        "job",
        (trains, fill, is_read("since 10 s"), lasts(5.0), free, is_read(AGAIN)),
        0,
        (JOB_FULL, "since 10 s", AGAIN),
    ),
]
PLACE_IN_TIME = [
    Case(
        "job folder full for good, with a bound",
        "job",
        (trains, fill),
        1,
        (JOB_FULL, "since 10 s", "longer than --disk-wait (12 s)", "go on with: "),
        options="--disk-wait 12s",
    ),
    Case(
        "place full for 15 s",
        "place",
        (trains, fill, is_read(NO_CUT, 2), lasts(5.0), free, is_read(CUTS_AGAIN)),
        0,
        (NO_CUT, NO_CUT, CUTS_AGAIN),
        options=EVERY,
        loop=LONG,
    ),
    Case(
        "place read-only for 15 s",
        "place",
        (trains, forbid, is_read(NO_CUT, 2), allow, is_read(CUTS_AGAIN)),
        0,
        (NO_CUT, "the disk is read-only", CUTS_AGAIN),
        options=EVERY,
        loop=LONG,
    ),
    Case(
        "place full in the middle of a checkpoint",
        "place",
        (trains, is_read(NO_CUT), has("24m"), is_read(CUTS_AGAIN)),
        0,
        (NO_CUT, "the disk is full", CUTS_AGAIN),
        before=(has("1400k"),),
        options=f"{EVERY} --servers 1",
        loop=f"--records 6400 --ids {MANY_IDS} --epochs 1 --sleep-ms 50",
    ),
    Case(
        "place full at the end",
        "place",
        (trains, fill),
        1,
        ("waits for the last checkpoint", "longer than --disk-wait (12 s)", "go on with: "),
        options=f"{EVERY[:-2]}1h --disk-wait 12s",
    ),
    Case(
        "place read-only at the end, then Ctrl-C",
        "place",
        (trains, forbid, is_read("waits for the last checkpoint"), press_ctrl_c),
        75,
        ("waits for the last checkpoint", "interrupted; no cut could be", "go on with: "),
        options=f"{EVERY[:-2]}1h",
    ),
]


def reads(disk: Disk, folder: Path, way: Way, case: Case) -> None:
    scene = Scene(disk, folder, way, case)
    assert scene.play() == case.code
    shown = scene.shown.read_text()
    assert way == "python" or "Traceback" not in shown
    assert shown.count("Traceback") <= 1, "of the script's own call"
    behind = 0
    for words in case.reads:
        assert words in shown[behind:], (words, shown)
        behind = shown.index(words, behind) + len(words)
    if "go on with: " in case.reads:
        scene.go_on()
    assert scene.verdict.exists() == ("go on with: " in case.reads or not case.code)
    assert not scene.verdict.exists() or scene.is_exact()

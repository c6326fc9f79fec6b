"""A launcher says that the coordinator does not answer, or what it cannot write."""

import io
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from paceline.launch.job.folder import JobDir
from paceline.launch.supervise.launcher import Launcher
from paceline.launch.supervise.supervision import Supervision
from paceline.messages.watching import (
    Exited,
    JobStatus,
    LauncherOrders,
    QueueStatus,
    Trouble,
)
from paceline.timing import ManualClock
from paceline.watch.progress import Bar, Show, open_show


class Away:
    """A link to a coordinator that is away until it is told otherwise."""

    def __init__(self) -> None:
        self.orders: LauncherOrders | JobStatus | None = None

    def note_exit(self, exited: Exited) -> None:
        raise AssertionError(exited)

    def call_report(self, timeout_s: float, **_: bool) -> LauncherOrders | JobStatus | None:
        del timeout_s
        return self.orders

    def close(self) -> None:
        pass


class Lines(Show):
    """What is said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def _draw(self, status: JobStatus, restarts: int, now: float) -> None:
        pass

    def say(self, text: str) -> None:
        self.said.append(text)

    def close(self) -> None:
        pass


def standing() -> JobStatus:
    queue = QueueStatus(0, 0, 1, 0, 0)
    counts = {"epochs": 0, "records": 0, "tasks_done": 0, "tasks_failed": 0, "steps": 0}
    more = {"total_records": 0, "timeline": 0, "cut": 0, "counters": {}, "metrics": {}}
    return JobStatus(
        state="running", queue=queue, pace="sync", processes=(), **counts, **more
    )


def test_a_coordinator_that_does_not_answer_is_told_of(tmp_path: Path) -> None:
    clock, link, show = ManualClock(), Away(), Lines()
    supervision = Supervision([], ["trainer-0"], 60.0)
    job = JobDir(tmp_path)
    launcher = Launcher(supervision, lambda _: None, job, link, show, clock)
    for _ in range(50):
        launcher._report()
        clock.advance(0.25)
    [told] = show.said
    assert told == (
        "launcher waits for coordinator (coordinator), 10 s: it does not say how the job "
        "stands"
    )
    link.orders = LauncherOrders(status=standing())
    launcher._report()
    assert show.said[1:] == [
        "launcher goes on after 12 s: it has waited for coordinator (coordinator)"
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


PLACES = ["/runs/j", "/data/of/a/team/with/a/long/name/runs/20261124-101531-train-again"]


@pytest.mark.parametrize("place", PLACES)
def test_a_terminal_of_80_columns_shows_the_whole_reason_every_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    clock, link, show = ManualClock(), Away(), open_show(terminal)
    assert isinstance(show, Bar)
    supervision = Supervision([], ["trainer-0"], 60.0)
    launcher = Launcher(supervision, lambda _: None, JobDir(tmp_path), link, show, clock)
    text = f"waiting for space on the disk of {place}: the disk is full, since "
    for second in range(35):
        trouble = Trouble("journal", place, f"{text}{second} s", float(second))
        link.orders = replace(standing(), trouble=trouble)
        launcher._report()
        clock.advance(1.0)
    show.close()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert max(map(len, re.split(r"[\r\n]", shown))) <= 80
    seen = re.findall(r"(\d+)s", shown.replace("\n", "").replace(" ", ""))
    joined = re.sub(r"\s", "", shown)
    for second in (0, 10, 20, 30):
        assert re.sub(r"\s", "", f"{text}{second} s") in joined, seen

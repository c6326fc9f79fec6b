"""A job folder as a job leaves it, whose events a test writes."""

import os
from pathlib import Path
from typing import Any

from paceline.config import JobConfig
from paceline.events import EventLog
from paceline.launch.job import JobDir, RunFile

START = 64  # records a log


class WrittenJob:
    """A job that no process runs."""

    def __init__(self, path: Path, name: str = "job") -> None:
        self.job = JobDir(path / name)
        self.job.claim(JobConfig(run="1b" * 16, job="1b" * 16, trainers=2), "train.py")
        self._sockets = path / "sockets"
        self._events = EventLog(self.job.events)
        self.happens("RunBegun", run="1b" * 16)
        self.logged: list[tuple[int, str, float]] = []  # (records, name, value), in order

    def happens(self, event: str, **fields: Any) -> None:
        """Something happens."""
        self._events.write(event, fields)

    def moves_on_after(self, most_bytes: int) -> None:
        """Its events move on far more often than those of a real one."""
        self._events.close()
        self._events = EventLog(self.job.events, most_bytes)

    def logs(self, number: int) -> None:
        """So many calls of `Session.log`, of two trainers in turn."""
        for n in range(len(self.logged), len(self.logged) + number):
            at, value = START * (n + 1), 1.0 / (n + 1)
            told = {
                "trainer": f"trainer-{n % 2}",
                "records": at,
                "numbers": {"loss": value},
            }
            self.happens("log", **told)
            self.logged.append((at, "loss", value))

    def lives(self) -> None:
        """It looks as if this process were its launcher."""
        self._sockets.mkdir(exist_ok=True)
        self.job.write_run(RunFile("1b" * 16, "unix:none", str(self._sockets), os.getpid()))

    def ends(self, status: str = "finished") -> None:
        """It is over."""
        summary = {"status": status, "reason": "all is done", "records": 640, "steps": 10}
        assert self.job.write_end(None, summary) is None
        self._events.close()

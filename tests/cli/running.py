"""The program called in this process, and what stands in for a run."""

from pathlib import Path

import pytest

from paceline.cli import main as cli
from paceline.config import JobConfig
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, Reach, RunResult
from paceline.messages.watching import JobStatus, ProcessStatus, QueueStatus
from paceline.watch.summary import Restarts, RunTime, Verdict, summarize

STATUS = JobStatus(
    state="running",
    queue=QueueStatus(todo=3, pending=2, done=1, failed=0, epoch=1),
    pace="async",
    processes=(
        ProcessStatus("trainer", "trainer-0", 4, 77, "here", "", "working", 9, 512),
    ),
    epochs=1,
    records=512,
    tasks_done=9,
    tasks_failed=0,
    steps=12,
    metrics={"loss": 0.25},
    total_records=0,
    timeline=0,
    cut=0,
    counters={"duplicates": 2},
)


def exit_code(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["paceline", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    code = ended.value.code
    assert isinstance(code, int | None)
    return code or 0


class Runs:
    """Stands in for the run itself, and keeps what it was asked for."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.config = JobConfig(run="none")
        self.script = UserScript("", ())
        self.job = JobDir(Path())
        self.is_resumed = False
        self.said: tuple[str, ...] = ()
        self.reach = Reach()

    def __call__(self, run: LocalRun, *_: object, reach: Reach) -> RunResult:
        self.reach = reach
        self.config, self.script, self.job, self.is_resumed = run
        folder = str(self.job.path)
        summary = summarize(STATUS, self.verdict, Restarts(), 2.0, folder, RunTime(0.0))
        return RunResult(summary, self.verdict, self.said)

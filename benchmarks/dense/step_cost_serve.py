"""Runs cases of `benchmarks step_cost` with a checkout's packages, until its input ends.

Run by its path: this file and its loop are those of the checkout that compares, `paceline`
and the rest of `benchmarks` are those on PYTHONPATH, which may be older.

Waits: for the jobs.
"""

import contextlib
import json
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness.environments import one_thread
from benchmarks.harness.processes import fork_server, job_config, wait_job, wait_scripts
from paceline.launch.job.commands import UserScript
from paceline.launch.processes.forkserver import ForkServer

LOOPS = Path(__file__).with_name("step_cost_loops.py")
LIMIT_S = 180.0  # of one run

Found = dict[str, Any]  # what `step_cost_loops` has written, and what lies in the folder


class Case(NamedTuple):
    """One setting, and how long it is measured."""

    place: str
    pace: str
    model: str
    blocks: int
    steps: int

    def __str__(self) -> str:
        """For the tables."""
        return f"{self.place}, {self.pace}, {self.model}"


def run_once(case: Case, folder: Path, forks: ForkServer, *, is_counted: bool) -> Found:
    """Run a case in processes of its own, in a fresh folder."""
    out, plan = folder / "result.json", case._asdict()
    del plan["place"]
    counted = ("--counted",) if is_counted else ()
    words = ("--out", str(out), "--plan", json.dumps(plan), *counted)
    if case.place == "run":
        script = UserScript(str(LOOPS), words)
        wait_job(forks, job_config(case.pace), script, one_thread(), folder)
    else:
        own = {"PACELINE_JOB_DIR": str(folder / "job"), "PACELINE_QUIET": "1"}
        changes = {**one_thread(), **own}
        wait_scripts(forks, LOOPS, [words], changes, folder / "log", LIMIT_S)
    found: Found = json.loads(out.read_text(encoding="utf-8"))
    steps = (case.blocks + 1) * case.steps
    found["calls"] |= {n: count / steps for n, count in written(folder / "job").items()}
    return found


def written(job: Path) -> dict[str, int]:
    """What a job that is over has written down."""
    with contextlib.closing(sqlite3.connect(job / "journal.sqlite")) as journal:
        (records,) = journal.execute("SELECT seq FROM head").fetchone()
    events = sum(len(log.read_bytes().splitlines()) for log in job.glob("events*.jsonl"))
    return {"journal records": records, "events": events}


def serve() -> None:
    """Run what standard input asks for, line by line, and answer on standard output."""
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as name,
        fork_server(Path(name) / "forks", 1) as forks,
    ):
        for again, line in enumerate(sys.stdin):
            case, is_counted = json.loads(line)
            folder = Path(name) / str(again)
            folder.mkdir()
            found = run_once(Case(*case), folder, forks, is_counted=is_counted)
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    serve()

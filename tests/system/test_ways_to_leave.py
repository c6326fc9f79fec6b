"""The exit code is 0 only if every record was trained, or the script called `stop`.

However a script leaves its loop: in one, some or all trainers, and embedded.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paceline.config import Async, JobConfig
from paceline.launch.job.commands import Command, UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, RunResult, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.launch.processes.process import wait_any
from paceline.timing import Deadline, SystemClock
from paceline.watch.progress import open_show
from paceline.watch.summary import Ending
from tests.system import leaving_job

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]

SCRIPT = Path(leaving_job.__file__)
RECORDS = leaving_job.RECORDS
WAIT_S = 300.0
LEAVING = ("break", "return", "exit 0", "os._exit 0", "break and go on")
GIVING_UP = (
    *("raise", "raise again", "close and raise", "raise at exit log"),
    *("raise at exit close", "exit 1", "exit no", "exit 1 at exit log"),
    *("exit 1 at exit close", "os._exit 1", "SIGINT"),
)
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(
    forks: ForkServer, folder: Path, trainers: int, *ways: str, is_resumed: bool = False
) -> tuple[RunResult, str]:
    """Run a job; how it ended, and all that it said."""
    config = JobConfig(
        run=fresh_run_id(), trainers=trainers, servers=1, timeout_s=30.0, pace=Async()
    )
    script = UserScript(str(SCRIPT), (str(folder), *ways))
    job, clock, shown = JobDir(folder / "job"), SystemClock(), folder / "shown"
    with shown.open("w") as stream:
        result = wait_local_run(
            LocalRun(config, script, job, is_resumed),
            open_show(stream),
            clock,
            environment=ENVIRONMENT,
            forks=forks,
        )
    is_trained = result.summary.records == RECORDS
    is_stopped = result.verdict.ending is Ending.STOPPED
    assert (result.verdict.exit_code == 0) == (is_trained or is_stopped)
    if not ways or not ways[0].startswith("unreadable"):  # given up is not left out
        assert result.summary.records_left_out == RECORDS - result.summary.records
    return result, shown.read_text()


def resumed(forks: ForkServer, folder: Path) -> RunResult:
    """Go on with a job as it was; it must train the rest."""
    job, shown = JobDir(folder / "job"), folder / "shown"
    script = UserScript(str(SCRIPT), (str(folder), "none"))
    with shown.open("w") as stream:
        result = wait_local_run(
            LocalRun(job.read_config(), script, job, True),
            open_show(stream),
            SystemClock(),
            environment=ENVIRONMENT,
            forks=forks,
        )
    assert result.verdict.ending is Ending.TRAINED, result.verdict
    assert (folder / "value").read_text() == str(RECORDS)
    return result


def embedded(forks: ForkServer, folder: Path, way: str) -> tuple[int, list[str]]:
    """Run the script by itself; its exit code and its last lines."""
    environment = {**ENVIRONMENT, "PACELINE_JOB_DIR": str(folder / "job")}
    command = Command((str(SCRIPT), str(folder), way), environment)
    deadline = Deadline(SystemClock(), WAIT_S)
    while (child := forks.start("trainer-0", command, folder / "log")) is None:
        assert not deadline.is_over(), "the fork server is not ready"
        time.sleep(0.05)
    assert wait_any([child], WAIT_S) == [child]
    return child.reap(), child.last_lines()


@pytest.mark.parametrize(
    "ways",
    [
        *((way,) for way in LEAVING),  # one trainer
        LEAVING,
        tuple(way for way in LEAVING for _ in range(2)),
    ],
    ids="-".join,
)
def test_who_stays_trains_what_others_leave(
    ways: tuple[str, ...], forks: ForkServer, tmp_path: Path
) -> None:
    chosen = [f"trainer-{number}={way}" for number, way in enumerate(ways, start=1)]
    result, _ = run(forks, tmp_path, len(ways) + 1, *chosen)
    assert result.verdict.ending is Ending.TRAINED, result.verdict
    assert (tmp_path / "value").read_text() == str(RECORDS)
    assert len(list(tmp_path.glob("left-*"))) == len(ways)


@pytest.mark.parametrize("stay", [1, 0], ids=["some", "all"])
def test_who_gives_up_once_is_started_again_and_told(
    stay: int, forks: ForkServer, tmp_path: Path
) -> None:
    ways = GIVING_UP
    chosen = [f"trainer-{number}={way}/once" for number, way in enumerate(ways)]
    result, _ = run(forks, tmp_path, len(ways) + stay, *chosen)
    assert result.verdict.ending is Ending.TRAINED, result.verdict
    assert (tmp_path / "value").read_text() == str(RECORDS)
    for number in range(len(ways)):
        told = f"trainer-{number} failed on the way, once: "
        assert any(line.startswith(told) for line in result.said)


@pytest.mark.parametrize(
    "way",
    [*LEAVING[:4], "break at exit log", "exit 0 at exit log", "return at exit close"],
)
def test_a_loop_that_all_have_left_is_resumed(
    way: str, forks: ForkServer, tmp_path: Path
) -> None:
    result, _ = run(forks, tmp_path, 2, way)
    assert result.verdict.exit_code == 1
    assert "of epoch 1 are not trained" in result.verdict.reason
    assert f"of {RECORDS} records are left out" in result.verdict.reason
    assert result.summary.status == "failed"
    assert result.said[-1].startswith("go on with: paceline run --resume")
    again, _ = run(forks, tmp_path, 2, is_resumed=True)
    assert again.verdict.ending is Ending.TRAINED, again.verdict
    assert (tmp_path / "value").read_text() == str(RECORDS)


@pytest.mark.parametrize("way", ["break and go on", "caught"])
def test_a_loop_that_all_have_gone_on_from_is_over(
    way: str, forks: ForkServer, tmp_path: Path
) -> None:
    result, _ = run(forks, tmp_path, 2, way)
    assert result.verdict.exit_code == 1
    assert "all trainers have left a loop early" in result.verdict.reason
    assert not any("go on with" in line for line in result.said)
    again, _ = run(forks, tmp_path, 1, is_resumed=True)
    assert again.verdict.reason == result.verdict.reason


# The other two are deaths like any other: behind each the job is two batches further.
@pytest.mark.parametrize("way", [w for w in GIVING_UP if w not in {"os._exit 1", "SIGINT"}])
def test_a_script_that_gives_up_each_time_ends_the_job(
    way: str, forks: ForkServer, tmp_path: Path
) -> None:
    result, _ = run(forks, tmp_path, 1, way)
    assert result.verdict.exit_code == 1
    assert "leaving_job.py:" in result.verdict.reason
    assert "after 2 batches of its own" in result.verdict.reason
    assert f"in epoch 1, 32 of {RECORDS} records are trained" in result.verdict.reason
    again, _ = run(forks, tmp_path, 1, is_resumed=True)
    assert again.verdict.ending is Ending.TRAINED, again.verdict
    assert (tmp_path / "value").read_text() == str(RECORDS)


@pytest.mark.parametrize(
    ("way", "code", "said"),
    [
        ("none", 0, ""),
        ("stop", 0, ""),
        ("break", 1, "560 of 576 records are left out; --resume"),
        ("return", 1, "560 of 576 records are left out; --resume"),
        ("break and go on", 1, "560 of 576 records are left out; session.stop"),
        ("caught", 1, "560 of 576 records are left out; session.stop"),
        ("raise", 1, "ValueError: a bug"),
        ("raise again", 1, "ValueError: a bug"),
        ("close and raise", 1, "ValueError: a bug"),
        ("exit 0", 1, "560 of 576 records are left out; --resume"),
        ("exit 1", 1, ""),
        ("exit no", 1, "no"),
        ("raise at exit log", 1, "ValueError: a bug"),
        ("raise at exit close", 1, "ValueError: a bug"),
        ("exit 1 at exit log", 1, ""),
        ("exit 1 at exit close", 1, ""),
        ("exit 0 at exit log", 1, "560 of 576 records are left out; --resume"),
        ("os._exit 1", 1, ""),
        ("os._exit 0", 0, ""),  # nothing of ours runs behind it
        ("SIGINT", 75, "saved as cut"),
        ("unreadable one", 3, "record 288 is bad"),
        ("unreadable all", 1, "is bad"),
    ],
)
def test_an_embedded_job_ends_its_process_with_the_same_code(
    way: str, code: int, said: str, forks: ForkServer, tmp_path: Path
) -> None:
    found, lines = embedded(forks, tmp_path, way)
    assert found == code, lines
    assert said in "\n".join(lines)


@pytest.mark.parametrize(("way", "code"), [("unreadable one", 3), ("unreadable all", 1)])
def test_data_that_cannot_be_read_end_a_run_with_the_same_code(
    way: str, code: int, forks: ForkServer, tmp_path: Path
) -> None:
    result, _ = run(forks, tmp_path, 2, way)
    assert result.verdict.exit_code == code, result.verdict
    where = "events.jsonl" if way == "unreadable one" else "summary.json"
    assert "is bad" in (tmp_path / "job" / where).read_text()


@pytest.mark.parametrize("call", ["log", "close"])
@pytest.mark.parametrize("end", ["raise", "exit 1", "exit 0", "exit no"])
def test_what_an_embedded_script_does_at_its_exit_leaves_its_loop_to_be_resumed(
    end: str, call: str, forks: ForkServer, tmp_path: Path
) -> None:
    found, lines = embedded(forks, tmp_path, f"{end} at exit {call}")
    assert found == 1, lines
    summary = json.loads((tmp_path / "job" / "summary.json").read_text())
    assert summary["records_left_out"] == 560
    resumed(forks, tmp_path)


def test_plain_python_ends_with_it_too(forks: ForkServer, tmp_path: Path) -> None:
    """Of an exit with a code the interpreter itself keeps nothing."""
    ways = {
        "exit 0": tmp_path / "none",
        "exit the loss is not finite": tmp_path / "text",
        "exit 1 at exit log": tmp_path / "log",
        "exit 1 at exit close": tmp_path / "close",
    }
    running = {}
    for way, folder in ways.items():
        folder.mkdir()
        environment = {**ENVIRONMENT, "PACELINE_JOB_DIR": str(folder / "job")}
        command = [sys.executable, str(SCRIPT), str(folder), way]
        running[folder] = subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, text=True
        )
    for folder, process in running.items():
        said = process.communicate(timeout=WAIT_S)[1]
        assert process.returncode == 1, said
        assert "560 of 576 records are left out" in said
        summary = json.loads((folder / "job" / "summary.json").read_text())
        assert (summary["status"], summary["records_left_out"]) == ("failed", 560)
        assert (folder / "notes-trainer-0").read_text() == "begun"
    for name in ("log", "close"):
        resumed(forks, tmp_path / name)

"""Everything is killed in mid-run, again and again, and the job goes on elsewhere.

Real processes, killed with SIGKILL all at once; the next run has other numbers of servers
and trainers. Minutes: only `make soak` runs it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from paceline.timing import Deadline, SystemClock
from tests.system.events import events_of

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

COUNTING = Path(__file__).parents[2] / "examples" / "counting" / "train.py"
USER_STATE = Path(__file__).with_name("user_state.py")
SIZES = [(2, 2), (3, 4), (1, 1), (2, 3), (4, 2), (3, 1), (1, 4), (2, 2), (3, 3), (1, 2)]
RECORDS, EPOCHS = 6400, 4
LIMIT_S = 600.0
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def start(
    job: Path,
    script: Path,
    arguments: Sequence[str],
    sizes: tuple[int, int],
    **options: str,
) -> subprocess.Popen[bytes]:
    """A run of the job, as a user starts it; it goes on where the last one was killed."""
    servers, trainers = sizes
    flags = [f"--servers={servers}", f"--trainers={trainers}", f"--job-dir={job}"]
    flags += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    flags += ["--resume"] if (job / "job.json").exists() else []
    command = [sys.executable, "-m", "paceline.cli.main", "run", "--json", *flags]
    return subprocess.Popen(
        [*command, str(script), *arguments], env=ONE_THREAD, stdout=subprocess.PIPE
    )


def kill_everything(launcher: subprocess.Popen[bytes]) -> None:
    process = psutil.Process(launcher.pid)
    for one in [process, *process.children(recursive=True)]:
        try:
            one.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    launcher.communicate()


def wait_leases(job: Path, launcher: subprocess.Popen[bytes], more: int) -> bool:
    """Wait until so many leases more are granted; false if the job ended before."""
    deadline, before = Deadline(SystemClock(), LIMIT_S), len(events_of(job, "LeaseGranted"))
    while len(events_of(job, "LeaseGranted")) < before + more:
        assert not deadline.is_over(), "no work is leased"
        if launcher.poll() is not None:
            return False
        time.sleep(0.1)
    return True


def test_ten_runs_killed_whole_count_every_record_once(tmp_path: Path) -> None:
    job, out = tmp_path / "job", tmp_path / "verdict.json"
    arguments = ["--records", str(RECORDS), "--ids", "200", "--epochs", str(EPOCHS)]
    arguments += ["--sleep-ms", "25", "--out", str(out)]
    options = {"pace": "sync:reduce=sum", "checkpoint_every": "1s"}
    killed = 0
    for sizes in SIZES:
        launcher = start(job, COUNTING, arguments, sizes, **options)
        assert wait_leases(job, launcher, 5), "the job was over too early"
        kill_everything(launcher)
        killed += 1
    last = start(job, COUNTING, arguments, (2, 2), **options)
    summary = json.loads(last.communicate(timeout=LIMIT_S)[0].splitlines()[-1])
    resumed = [event["cut"] for event in events_of(job, "Resumed")]
    print(f"{killed} runs killed whole, resumed at cuts {resumed}")  # noqa: T201
    assert last.returncode == 0
    assert summary["records"] == RECORDS * EPOCHS
    assert summary["epochs"] == EPOCHS
    assert json.loads(out.read_text())["exact"]


def test_one_trainer_comes_to_the_same_bits_through_five_runs(tmp_path: Path) -> None:
    plain, out = tmp_path / "plain.json", tmp_path / "out.json"
    subprocess.run(
        [sys.executable, str(USER_STATE), "--plain", "--out", str(plain)],
        env=ONE_THREAD,
        check=True,
    )
    job, arguments = tmp_path / "job", ["--slow", "--out", str(out)]
    for servers in (2, 3, 1, 2):
        launcher = start(job, USER_STATE, arguments, (servers, 1), checkpoint_every="200ms")
        assert wait_leases(job, launcher, 9), "the job was over too early"
        kill_everything(launcher)
    last = start(job, USER_STATE, arguments, (3, 1), checkpoint_every="200ms")
    summary = json.loads(last.communicate(timeout=LIMIT_S)[0].splitlines()[-1])
    assert (last.returncode, summary["records_left_out"] > 0) == (1, True), "by its break"
    assert summary["tasks"]["failed"] == 0
    assert len(events_of(job, "Resumed")) == 4
    assert json.loads(out.read_text()) == json.loads(plain.read_text())

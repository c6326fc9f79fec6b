"""A script's own job on a full disk: told, waited for, left at once."""

import io
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.errors import JobFailed, PacelineError, StoreFull
from paceline.launch.own_job import LOOK_EVERY_S
from paceline.launch.supervise import LEAVE_S, NOT_SAVED
from paceline.server import control
from paceline.store.journal import Journal
from paceline.timing import Deadline, SystemClock
from paceline.watch import progress
from paceline.watch.summary import Ending
from tests.launch.own_jobs import RECORDS, Begin, go_on, train


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is set, the disk of the job folder is full."""
    is_full, append = threading.Event(), Journal.append

    def write(journal: Journal, bodies: list[bytes]) -> int:
        if is_full.is_set():
            raise StoreFull("cannot append", "/job", "the disk is full")
        return append(journal, bodies)

    monkeypatch.setattr(Journal, "append", write)
    return is_full


FULL = "waiting for space on the disk of /job: the disk is full"


def wait_said(output: io.StringIO, text: str, times: int = 1) -> None:
    deadline = Deadline(SystemClock(), 60.0)
    while output.getvalue().count(text) < times:
        assert not deadline.is_over(), output.getvalue()
        time.sleep(0.01)


def beside(*acts: Callable[[], object]) -> threading.Thread:
    """Do these, one after the other, while the script goes on."""
    thread = threading.Thread(target=lambda: [act() for act in acts], daemon=True)
    thread.start()
    return thread


@pytest.mark.slow
@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_full_disk_is_told_and_what_was_waited_counts_as_no_start(
    begin: Begin,
    output: io.StringIO,
    disk: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    is_quiet: bool,
) -> None:
    monkeypatch.setattr(progress, "AGAIN_S", 0.5)
    job = begin(is_quiet=is_quiet)

    def fill(number: int) -> None:
        if number == 2:
            time.sleep(2 * LOOK_EVERY_S)  # its first batch is seen
            disk.set()
            beside(lambda: wait_said(output, FULL, times=4), disk.clear)

    assert train(job.session, fill) == RECORDS
    wait_said(output, "there is space on the disk of /job again")
    verdict, summary = job.end(None), job.job.summary
    assert verdict is not None
    assert summary is not None
    assert verdict.ending is Ending.TRAINED
    assert summary.start_seconds is not None
    assert summary.seconds - summary.start_seconds > 1.5, "it has waited behind its start"


@pytest.mark.slow
def test_ctrl_c_on_a_full_disk_ends_at_once_and_says_how_to_go_on(
    begin: Begin,
    output: io.StringIO,
    ended: "queue.Queue[int]",
    disk: threading.Event,
    tmp_path: Path,
) -> None:
    job, took_s = begin(), 0.0
    clock = SystemClock()

    def compute(number: int) -> None:
        if number == 2:
            disk.set()
            beside(lambda: wait_said(output, FULL), interrupt, go_on_waiting)

    def interrupt() -> None:
        nonlocal took_s
        took_s = -clock.now_s()
        os.kill(os.getpid(), signal.SIGINT)

    def go_on_waiting() -> None:
        nonlocal took_s
        assert ended.get(timeout=60) == 75
        took_s += clock.now_s()
        job.session.membership.driver.close()  # the process has ended

    with pytest.raises((PacelineError, SystemExit)):
        train(job.session, compute)
    said = output.getvalue()
    assert NOT_SAVED in said
    assert "a checkpoint is taken" not in said
    *_, last, on = said.splitlines()
    assert last.startswith(f"paceline: interrupted; {FULL}, since ")
    assert on.startswith("paceline: go on with: paceline run --resume")
    assert took_s < LEAVE_S, "nothing that cannot be had is waited for"
    disk.clear()
    assert go_on(tmp_path / "job") == RECORDS


@pytest.mark.slow
def test_a_script_that_fails_behind_its_loop_does_not_wait_for_space(
    begin: Begin, output: io.StringIO, disk: threading.Event, tmp_path: Path
) -> None:
    job, clock = begin(), SystemClock()
    assert train(job.session) == RECORDS
    disk.set()
    began_s = clock.now_s()
    verdict = job.end(ValueError("a bug"))
    assert clock.now_s() - began_s < LEAVE_S
    assert verdict is not None
    assert verdict.exit_code == 1
    assert verdict.reason.startswith(f"ValueError: a bug; {FULL}, since ")
    assert "go on with: paceline run --resume" in output.getvalue().splitlines()[-1]
    disk.clear()
    assert go_on(tmp_path / "job") == RECORDS


@pytest.mark.slow
def test_a_first_checkpoint_that_storage_refuses_ends_the_script_with_the_reason(
    begin: Begin, output: io.StringIO, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> None:
        raise StoreFull("/cuts: the disk is full", "/cuts", "the disk is full")

    monkeypatch.setattr(control, "write_share", refuse)
    job = begin()
    with pytest.raises(
        JobFailed, match="the first checkpoint cannot be written"
    ) as failure:
        train(job.session)
    verdict = job.end(failure.value)
    assert verdict is not None
    assert verdict.exit_code == 1
    *_, last, on = output.getvalue().splitlines()
    assert last.count("the first checkpoint cannot be written: /cuts") == 1
    assert on.startswith("paceline: go on with: paceline run --resume")
    monkeypatch.undo()
    assert go_on(tmp_path / "job") == RECORDS

"""A script's own job shows itself, can be asked from outside, and ends in good order."""

import io
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from paceline.cli.status import ended_view, running_view
from paceline.config import SSP
from paceline.errors import Interrupted, UsageError
from paceline.launch import embedded, parting
from paceline.launch.job.folder import JobDir
from paceline.launch.job.operating import call_until_done
from paceline.launch.own_job import is_ours
from paceline.messages.watching import ChangePace, Scale
from paceline.timing import Deadline, SystemClock
from paceline.watch.summary import Ending
from tests.launch.own_jobs import BATCH, RECORDS, Begin, go_on, press_ctrl_c, train


# The reply to a step that has counted may come from the new pace's timeline.
@pytest.mark.filterwarnings("ignore:step dropped")
def test_status_and_pace_reach_it_while_it_runs(begin: Begin, tmp_path: Path) -> None:
    job, folder, clock = begin(), JobDir(tmp_path / "job"), SystemClock()
    view = running_view(folder, clock)
    processes = view["processes"]
    assert isinstance(processes, list)
    assert [one["id"] for one in processes] == ["coordinator", "server-0", "trainer-0"]
    assert {one["pid"] for one in processes} == {os.getpid()}
    wanted = ChangePace(pace=SSP(staleness=5))
    asking = threading.Thread(
        target=call_until_done, args=(folder, wanted, clock, lambda _: None)
    )

    def change(number: int) -> None:
        if number == 2:
            asking.start()
            deadline = Deadline(clock, 60.0)
            while job.job.status().changing is None:
                assert not deadline.is_over(), "nobody has asked"
                time.sleep(0.001)

    assert train(job.session, change) == RECORDS
    asking.join()
    assert running_view(folder, clock)["pace"] == "ssp:5"
    job.end(None)
    assert ended_view(folder) is not None


def test_it_has_one_trainer_and_says_how_to_have_more(begin: Begin, tmp_path: Path) -> None:
    begin()
    with pytest.raises(UsageError, match=r"only trainer.*paceline run --resume --trainers"):
        call_until_done(JobDir(tmp_path / "job"), Scale(trainers=3), SystemClock())


def test_nothing_is_left_behind(begin: Begin, tmp_path: Path) -> None:
    job = begin()
    run = JobDir(tmp_path / "job").read_run()
    assert run is not None
    assert Path(run.sockets).stat().st_mode & 0o777 == 0o700
    job.end(None)
    assert not Path(run.sockets).exists()
    assert JobDir(tmp_path / "job").read_run() is None


def test_it_runs_without_a_socket_and_says_why(
    begin: Begin, output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Path:
        raise OSError("no space left on device")

    monkeypatch.setattr(embedded, "hold_sockets", refuse)
    job = begin()
    assert "paceline status cannot look at this job while it runs: no space" in (
        output.getvalue()
    )
    assert train(job.session) == RECORDS


def test_ctrl_c_in_a_loop_finishes_the_step_saves_and_is_resumed_exactly(
    begin: Begin, output: io.StringIO, tmp_path: Path
) -> None:
    job = begin()
    with pytest.raises(Interrupted) as told:
        train(job.session, press_ctrl_c(at=2))
    assert told.value.code == 75
    verdict = job.end(None)  # nothing tells who ends by `SystemExit`
    assert verdict is not None
    assert (verdict.exit_code, verdict.reason) == (75, "interrupted; saved as cut 1")
    *_, saved, on = output.getvalue().splitlines()
    assert saved == "paceline: interrupted; saved as cut 1"
    assert on == (
        f"paceline: go on with: paceline run --resume --job-dir {tmp_path / 'job'} "
        "'my train.py' --rate 1"
    )
    assert job.job.summary is not None
    assert job.job.summary.records == 3 * BATCH
    assert go_on(tmp_path / "job") == RECORDS


def test_a_script_that_catches_it_goes_on_but_begins_no_loop(begin: Begin) -> None:
    job = begin()
    with pytest.raises(KeyboardInterrupt):
        train(job.session, press_ctrl_c(at=0))
    assert job.session.records == BATCH
    with pytest.raises(Interrupted):
        next(iter(job.session.batches((torch.ones(RECORDS, 1),), BATCH)))
    verdict = job.end(None)
    assert verdict is not None
    assert verdict.ending is Ending.INTERRUPTED


def test_ctrl_c_outside_of_calls_ends_the_script_where_it_is(begin: Begin) -> None:
    job = begin()
    assert train(job.session) == RECORDS
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGINT)
    verdict = job.end(None)
    assert verdict is not None
    assert verdict.exit_code == 75


def test_ctrl_c_once_more_while_the_end_is_told_is_told_to_the_end(
    begin: Begin, output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = begin()
    with pytest.raises(Interrupted):
        train(job.session, press_ctrl_c(at=3))
    write, pressed = output.write, []

    def press_and_write(text: str) -> int:
        if "interrupted" in text and not pressed:
            pressed.append(text)
            signal.raise_signal(signal.SIGINT)
        return write(text)

    monkeypatch.setattr(output, "write", press_and_write)
    job.end(None)
    assert pressed
    assert "go on with" in output.getvalue()


def test_sigterm_does_the_same(begin: Begin) -> None:
    job = begin()
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGTERM)
    verdict = job.end(None)
    assert verdict is not None
    assert verdict.reason == "interrupted; nothing was shared yet, and nothing is saved"


def test_an_exception_ends_it_with_a_cut_that_has_every_step(
    begin: Begin, output: io.StringIO, tmp_path: Path
) -> None:
    def fail(number: int) -> None:
        if number == 5:
            raise ValueError("a bug\nof two lines")

    job = begin()
    with pytest.raises(ValueError, match="a bug") as failure:
        train(job.session, fail)
    verdict = job.end(failure.value)
    assert verdict is not None
    assert verdict.ending is Ending.FAILED
    *_, saved, on = output.getvalue().splitlines()
    assert saved == "paceline: failed: ValueError: a bug; saved as cut 1"
    assert on.startswith("paceline: go on with: paceline run --resume")
    assert go_on(tmp_path / "job") == RECORDS


def test_a_step_that_was_under_way_counts_once(begin: Begin, tmp_path: Path) -> None:
    job = begin()
    batches: list[object] = []

    def fail(number: int) -> None:
        batches.append(number)
        if number == 5:
            raise KeyboardInterrupt  # in the middle of a loop that stays open

    with pytest.raises(KeyboardInterrupt) as failure:
        train(job.session, fail)
    verdict = job.end(failure.value)
    assert verdict is not None
    assert verdict.ending is Ending.INTERRUPTED
    assert go_on(tmp_path / "job") == RECORDS


def test_a_step_that_takes_too_long_is_given_up_and_the_rest_is_saved(
    begin: Begin,
    ended: "queue.Queue[int]",
    output: io.StringIO,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parting, "LEAVE_S", 0.2)

    def compute(number: int) -> None:
        if number == 3:
            os.kill(os.getpid(), signal.SIGINT)
            assert ended.get(timeout=60) == 75
            job.session.membership.driver.close()  # the process has ended, and asks no more
            raise ValueError("the process has ended")

    job = begin()
    with pytest.raises(ValueError, match="has ended"):
        train(job.session, compute)
    assert "interrupted; saved as cut 1" in output.getvalue()
    assert job.job.summary is not None
    assert job.job.summary.records == 4 * BATCH
    assert go_on(tmp_path / "job") == RECORDS


def test_in_an_interactive_session_ctrl_c_is_pythons_and_the_job_goes_on(
    begin: Begin,
) -> None:
    before = signal.getsignal(signal.SIGINT)
    job = begin(is_interactive=True)
    assert signal.getsignal(signal.SIGINT) is before
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = job.session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))

    def cell(each: Callable[[int], object]) -> None:
        ones = (torch.ones(RECORDS, 1),)
        for number, (batch,) in enumerate(job.session.batches(ones, BATCH)):
            (-model(batch).sum()).backward()
            optimizer.step()
            optimizer.zero_grad()
            each(number)

    with pytest.raises(KeyboardInterrupt):
        cell(press_ctrl_c(at=1))
    assert signal.getsignal(signal.SIGINT) is before
    assert job.session.records == 2 * BATCH
    cell(lambda _: None)
    assert model.weight.item() == job.session.records == 2 * BATCH + RECORDS


def test_in_an_interactive_session_ctrl_c_waits_for_a_call_of_ours_to_be_over(
    begin: Begin,
) -> None:
    job = begin(is_interactive=True)
    told: list[str] = []
    ours = {
        "__name__": "paceline.planted",
        "press": lambda: os.kill(os.getpid(), signal.SIGINT),
        "told": told,
    }

    def each(number: int) -> None:
        if number == 1:
            exec("press(); told.append('the call is over')", ours)
        assert number < 2, "it comes before the next batch"

    with pytest.raises(KeyboardInterrupt):
        train(job.session, each)
    assert told == ["the call is over"]
    assert job.session.records == 2 * BATCH


def test_a_script_keeps_its_own_signals(begin: Begin) -> None:
    came: list[int] = []
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda number, _: came.append(number)),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_IGN),  # as nohup does
    }
    job = begin()
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGHUP)
    assert train(job.session) == RECORDS
    assert came == [signal.SIGINT]
    job.end(None)
    for number, meant in before.items():
        signal.signal(number, meant)


def test_signals_mean_what_they_meant_when_it_has_ended(begin: Begin) -> None:
    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in caught]
    job = begin()
    assert [signal.getsignal(number) for number in caught] != before
    job.end(None)
    assert [signal.getsignal(number) for number in caught] == before


def test_a_forked_process_has_no_job_to_end(begin: Begin) -> None:
    job = begin()
    pid = os.fork()
    if pid == 0:
        os._exit(7 if job.end(None) is None else 8)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert train(job.session) == RECORDS


def test_nothing_is_raised_while_paceline_is_at_work() -> None:
    ours = {"__name__": "paceline.planted", "look": lambda: is_ours(sys._getframe())}
    exec("found = look()", ours)  # a call of ours, and what it calls
    assert ours["found"]
    assert not is_ours(sys._getframe())
    assert not is_ours(None)

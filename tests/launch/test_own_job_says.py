"""What a script's own job says to its user, and what it keeps to itself."""

import io
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from paceline.errors import Interrupted, UsageError
from paceline.launch import own_job
from paceline.launch.job.folder import JobDir
from paceline.messages.watching import JobStatus
from paceline.params.rows import combining
from paceline.watch import progress
from paceline.watch.summary import Ending
from tests.launch.own_jobs import Begin, press_ctrl_c, train


def test_it_names_its_folder_at_once_and_ends_with_a_summary(
    begin: Begin, output: io.StringIO, tmp_path: Path
) -> None:
    job = begin()
    assert output.getvalue() == (
        f"paceline: job folder {tmp_path / 'job'}, 1 trainer, 1 server, sync\n"
    )
    train(job.session)
    verdict = job.end(None)
    assert verdict is not None
    assert verdict.ending is Ending.TRAINED
    said = output.getvalue()
    assert "status" in said
    assert "finished" in said
    assert "go on with" not in said
    assert job.end(None) == verdict, "it may be repeated"
    assert output.getvalue() == said


@pytest.mark.parametrize("is_quiet", [False, True])
def test_it_says_how_it_goes_on_while_the_script_runs(
    begin: Begin,
    output: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_quiet: bool,
) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    monkeypatch.setattr(own_job, "LOOK_EVERY_S", 0.01)
    job, looks = begin(is_quiet=is_quiet), threading.Semaphore(0)
    look = job.job.status

    def counted() -> JobStatus:
        looks.release()
        return look()

    monkeypatch.setattr(job.job, "status", counted)

    def each(number: int) -> None:
        if number == 3:
            while looks.acquire(blocking=False):
                pass  # of what was before this step
            assert looks.acquire(timeout=60)
            assert looks.acquire(timeout=60), "what the first has seen is shown"
            lines.extend(output.getvalue().splitlines())

    lines: list[str] = []
    train(job.session, each)
    told = [line for line in lines if "of 64 records (" in line]
    assert bool(told) is not is_quiet, lines
    assert all(line.startswith("paceline: ") for line in told)


def test_a_quiet_one_says_only_what_goes_wrong(begin: Begin, output: io.StringIO) -> None:
    job = begin(is_quiet=True)
    train(job.session)
    job.session.stop("enough")
    job.end(None)
    assert output.getvalue() == ""


def test_a_quiet_one_says_how_to_go_on(begin: Begin, output: io.StringIO) -> None:
    job = begin(is_quiet=True)
    with pytest.raises(Interrupted):
        train(job.session, press_ctrl_c(at=0))
    job.end(None)
    *_, saved, on = output.getvalue().splitlines()
    assert saved == "paceline: interrupted; saved as cut 1"
    assert on.startswith("paceline: go on with: ")


def test_without_a_step_there_is_nothing_to_go_on_with(
    begin: Begin, output: io.StringIO
) -> None:
    job = begin()
    model = torch.nn.Linear(1, 1)
    job.session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    with pytest.raises(UsageError) as failure:
        job.session.batches((torch.ones(4, 1),))  # type: ignore[call-arg]  # the slip
    verdict = job.end(failure.value)
    assert verdict is not None
    assert verdict.reason.endswith("; nothing was trained yet")
    assert "go on with" not in output.getvalue()


def test_what_was_evaluated_is_gone_on_with(begin: Begin, output: io.StringIO) -> None:
    job = begin()
    metric = pytest.importorskip("torchmetrics").SumMetric()
    model = torch.nn.Linear(1, 1)
    job.session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    job.session.evaluate(metric, lambda batch: batch, torch.ones(4, 1), batch_size=2)
    job.end(ValueError("a bug"))
    assert "go on with" in output.getvalue()


def test_modules_with_rules_of_ones_own_are_named_as_plugins(
    begin: Begin, output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rule(rows: combining.Array, values: combining.Array) -> combining.Array:
        return rows | values

    rule.__module__ = "rules"
    monkeypatch.setitem(combining._own, "union", rule)
    job = begin()
    with pytest.raises(Interrupted):
        train(job.session, press_ctrl_c(at=2))
    job.end(None)
    assert output.getvalue().endswith(" --plugin rules 'my train.py' --rate 1\n")


def test_who_is_killed_leaves_a_command_that_names_them(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_job, "LOOK_EVERY_S", 0.01)
    job, is_kept = begin(), threading.Event()
    keep = JobDir.keep_options

    def kept(folder: JobDir, options: Sequence[str]) -> None:
        keep(folder, options)
        is_kept.set()

    monkeypatch.setattr(JobDir, "keep_options", kept)
    monkeypatch.setattr(own_job, "modules_of_rules", lambda: ("__main__", "rules"))
    assert is_kept.wait(60)
    told = JobDir(job.job.path).resume_command()
    assert told.endswith(" --plugin rules 'my train.py' --rate 1")

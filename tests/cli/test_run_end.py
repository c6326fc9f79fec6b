"""What `paceline run` says at its end, in which order, and its exit code."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.watch.summary import Ending, Verdict
from tests.cli.running import Runs, exit_code


def test_json_is_the_last_line_and_has_the_summary(
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    script: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert exit_code(monkeypatch, "run", "--json", "--job-dir", tmp_path, script) == 0

    (line,) = capsys.readouterr().out.splitlines()
    summary = json.loads(line)
    assert summary["status"] == "finished"
    assert summary["records"] == 512
    assert summary["job_dir"] == str(runs.job.path)


def test_without_json_a_table_is_printed(
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    script: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(monkeypatch, "run", script) == 0

    shown = capsys.readouterr().out
    assert "finished" in shown
    assert "loss" in shown
    assert runs.job.path.parent == tmp_path / "runs"
    assert runs.job.path.name.endswith("-train")


@pytest.mark.parametrize(("tee", "is_whole"), [("trainer", False), ("server-0", True)])
def test_an_error_that_tee_has_shown_is_not_shown_again(
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    script: Path,
    capsys: pytest.CaptureFixture[str],
    tee: str,
    *,
    is_whole: bool,
) -> None:
    reason = "trainer-0 ended with exit code 2; the end of trainer-0.log:"
    words = "\nTraceback (most recent call last):\nValueError: x"
    runs.verdict = Verdict(Ending.FAILED, reason + words, role="trainer-0")

    folder = script.parent / "job"
    assert exit_code(monkeypatch, "run", "--tee", tee, "--job-dir", folder, script) == 1
    said = words if is_whole else " stands above"
    assert f"paceline: failed: {reason.rstrip(':')}" in (shown := capsys.readouterr().err)
    assert shown.rstrip().endswith(said)


@contextlib.contextmanager
def one_stream(monkeypatch: pytest.MonkeyPatch, shown: Path) -> Iterator[None]:
    """Let both streams go into one file, each as Python has it: in blocks, and in lines."""
    with shown.open("a") as output, shown.open("a", buffering=1) as errors:
        monkeypatch.setattr("sys.stdout", output)
        monkeypatch.setattr("sys.stderr", errors)
        yield


def test_the_command_to_resume_is_the_last_line_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, script: Path
) -> None:
    runs.verdict = Verdict(Ending.INTERRUPTED, "interrupted; saved as cut 3")
    runs.said = ("go on with: paceline run --resume",)
    job, shown = script.parent / "job", script.parent / "shown"

    with one_stream(monkeypatch, shown):
        assert exit_code(monkeypatch, "run", "--job-dir", job, script) == 75

    table, ending = shown.read_text().split("paceline: ", 1)
    assert table.startswith("status      stopped ")
    assert ending.splitlines() == [
        "interrupted; saved as cut 3",
        "paceline: go on with: paceline run --resume",
    ]


def test_the_json_of_an_interrupted_run_is_the_last_line_of_both_streams(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, script: Path
) -> None:
    runs.verdict = Verdict(Ending.INTERRUPTED, "interrupted")
    runs.said = ("go on with: paceline run --resume",)
    job, shown = script.parent / "job", script.parent / "shown"

    with one_stream(monkeypatch, shown):
        assert exit_code(monkeypatch, "run", "--json", "--job-dir", job, script) == 75

    *said, line = shown.read_text().splitlines()
    assert said == ["paceline: interrupted", f"paceline: {runs.said[0]}"]
    assert json.loads(line)["ending"] == "interrupted"


@pytest.mark.parametrize(
    ("ending", "code"),
    [(Ending.FAILED, 1), (Ending.GAVE_UP, 3), (Ending.INTERRUPTED, 75)],
)
def test_the_ending_is_the_exit_code_and_its_reason_goes_to_stderr(
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    script: Path,
    capsys: pytest.CaptureFixture[str],
    ending: Ending,
    code: int,
) -> None:
    runs.verdict = Verdict(ending, "for a reason")

    assert exit_code(monkeypatch, "run", "--job-dir", script.parent, script) == code
    assert "for a reason" in capsys.readouterr().err

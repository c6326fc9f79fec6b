"""``paceline status`` of a job that has ended."""

from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.launch.job.folder import JobDir
from paceline.watch.summary import Ending, Restarts, RunTime, Verdict, summarize
from tests.cli.running import STATUS, exit_code


@pytest.mark.parametrize(
    ("verdict", "goes_on"),
    [
        (Verdict(Ending.TRAINED, "every record was trained"), False),
        (Verdict(Ending.STOPPED, "the script stopped it: [enough]"), False),
        (Verdict(Ending.INTERRUPTED, "interrupted"), True),
        (Verdict(Ending.FAILED, "trainer-0 died 4 times in a row"), True),
    ],
)
def test_an_ended_job_tells_its_summary_how_it_ended_and_how_to_go_on(
    verdict: Verdict,
    goes_on: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    job = JobDir(tmp_path / "my job")
    job.claim(JobConfig(run="r"), "my train.py")
    summary = summarize(STATUS, verdict, Restarts(), 2.0, str(job.path), RunTime(0.0))
    job.write_end(STATUS, summary.as_dict())

    assert exit_code(monkeypatch, "status", job.path) == 0

    shown = capsys.readouterr().out
    assert "records     512" in shown
    assert (verdict.reason in shown) == (verdict.ending is not Ending.TRAINED)
    assert "interrupted: interrupted" not in shown
    command = f"paceline run --resume --job-dir '{job.path}' 'my train.py'"
    assert (f"go on with: {command}" in shown) == goes_on


def test_the_summary_of_an_older_version_is_shown_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = JobDir(tmp_path)
    job.claim(JobConfig(run="r"), "train.py")
    verdict = Verdict(Ending.INTERRUPTED, "")
    summary = summarize(STATUS, verdict, Restarts(), 2.0, "j", RunTime(0.0)).as_dict()
    for name in ("ending", "reason", "start_seconds"):
        del summary[name]
    job.write_end(STATUS, summary)

    assert exit_code(monkeypatch, "status", tmp_path) == 0

    assert "stopped" in capsys.readouterr().out

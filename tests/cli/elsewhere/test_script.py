"""A batch script is refused for what would be refused when its turn has come."""

import pytest

from tests.cli.running import exit_code


def test_what_runs_stands_behind_two_dashes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--nodes", "2", "--time", "1:00:00", "--partition", "gpu", "--array", "0-3"]
    more = ["--sbatch=--gpus-per-node=4", "--sbatch", "--mem=0"]
    words = ["--trainers", "4", "-m", "package.train", "--sbatch", "7"]

    assert exit_code(monkeypatch, "script", "slurm", *asked, *more, "--", *words) == 0

    said = capsys.readouterr().out
    for line in ("--nodes=2", "--time=1:00:00", "--partition=gpu", "--array=0-3"):
        assert f"#SBATCH {line}\n" in said
    assert "#SBATCH --gpus-per-node=4\n#SBATCH --mem=0\n" in said
    assert "#SBATCH --job-name=train\n" in said
    assert "  --trainers 4 -m package.train --sbatch 7\n" in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--trainer", "4", "train.py"], "No such option: --trainer"),
        ([], "Missing argument"),
        (["--resume", "train.py"], "--resume: the script says that itself"),
        (["--job-dir", "x", "train.py"], "--job-dir: the script says that itself"),
        (["--hosts", "a", "train.py"], "--hosts: the script says that itself"),
    ],
)
def test_what_could_not_run_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    assert exit_code(monkeypatch, "script", "slurm", "--", *words) == 2

    said = capsys.readouterr()
    assert told in said.err
    assert not said.out


def test_machines_that_join_are_jobs_of_one_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    join = ["script", "slurm", "--join", "runs/slurm-7"]

    assert exit_code(monkeypatch, *join, "--nodes", "2") == 2
    assert "--array=0-7 for eight of them" in capsys.readouterr().err
    assert exit_code(monkeypatch, *join, "--array", "0-7", "--", "--trainers", "4") == 0
    assert "paceline host --join runs/slurm-7 --trainers 4\n" in capsys.readouterr().out


def test_another_option_of_sbatch_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["script", "slurm", "--sbatch", "--mem=0\nrm x", "--", "train.py"]
    assert exit_code(monkeypatch, *words) == 2
    assert "expected an option of sbatch" in capsys.readouterr().err

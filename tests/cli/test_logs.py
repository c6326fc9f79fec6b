"""``paceline logs``: the ends of all logs, those of a role, and what comes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.cli import logs as command
from paceline.config import JobConfig
from paceline.launch.job import RUNS, JobDir
from paceline.launch.job.logs import LOG_PIECE_BYTES
from tests.cli.running import STATUS, exit_code
from tests.cli.test_finding import running


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobDir:
    """A job that runs, and is found."""
    monkeypatch.chdir(tmp_path)
    job = running(tmp_path / RUNS, "mine")
    job.log("trainer-0").write_text("".join(f"zero {n}\n" for n in range(30)))
    job.log("trainer-10").write_text("ten\nand no end")
    job.log("coordinator").write_text("")
    job.log("forkserver").write_text("only one\n")
    return job


@pytest.fixture
def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    def printed(*words: object) -> list[str]:
        assert exit_code(monkeypatch, "logs", *words) == 0
        return capsys.readouterr().out.splitlines()

    return printed


@pytest.mark.usefixtures("job")
def test_a_role_is_printed_as_it_wrote(printed: Callable[..., list[str]]) -> None:
    assert printed("trainer-0", "--lines", 2) == ["zero 28", "zero 29"]
    assert len(printed("trainer-0")) == 20
    assert printed("trainer-10") == ["ten", "and no end"]


def test_all_roles_are_printed_with_their_names(
    job: JobDir, printed: Callable[..., list[str]]
) -> None:
    expected = [
        "forkserver  | only one",
        "trainer-0   | zero 29",
        "trainer-10  | and no end",
    ]
    found = printed("--lines", 1)
    assert found == expected
    assert printed(job.path, "--lines", 1) == found


def test_a_kind_is_all_of_its_roles(job: JobDir, printed: Callable[..., list[str]]) -> None:
    both = ["trainer-0  | zero 29", "trainer-10 | and no end"]
    assert printed("trainer", "--lines", 1) == both
    assert printed(job.path, "trainer", "--lines", 1) == both


def test_lines_are_found_however_long_they_are(
    job: JobDir, printed: Callable[..., list[str]]
) -> None:
    lines = ["x" * LOG_PIECE_BYTES, "y" * LOG_PIECE_BYTES, "z"]
    job.log("server-0").write_text("before\n" + "\n".join(lines) + "\n")
    assert printed("server-0", "--lines", 3) == lines
    assert printed("server-0", "--lines", 0) == []


def test_the_job_that_ran_last_is_meant_where_none_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Callable[..., list[str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    job = JobDir(tmp_path / RUNS / "ended")
    job.claim(JobConfig(run="r"), "train.py")
    job.log("server-0").write_text("its end\n")
    job.write_end(STATUS, {"status": "finished"})
    assert printed("server-0", "-f") == ["its end"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("trainer-7",), "there is no log of trainer-7; there are coordinator, forkserver"),
        (("nowhere",), "there is no job folder"),
        (("runs/mine", "loss"), "expected a role such as trainer-0 or trainer, got 'loss'"),
        (("--lines", "-1"), "--lines: expected at least 0, got -1"),
        (
            ("runs/mine", "--join", "127.0.0.1:1"),
            "name the job by its folder, runs/mine, or",
        ),
    ],
)
@pytest.mark.usefixtures("job")
def test_what_cannot_be_shown_is_wrong_usage(
    words: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code(monkeypatch, "logs", *words) == 2
    assert said in capsys.readouterr().err


class Pauses:
    """Stands in for the pauses between two looks, and has something happen in each."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self.acts = list(acts)

    def sleep(self, seconds: float) -> None:
        del seconds
        self.acts.pop(0)()


def write(job: JobDir, role: str, text: str) -> Callable[[], object]:
    def act() -> None:
        with job.log(role).open("a") as log:
            log.write(text)

    return act


def test_what_is_written_is_followed_to_the_end_of_the_job(
    job: JobDir, monkeypatch: pytest.MonkeyPatch, printed: Callable[..., list[str]]
) -> None:
    def end() -> None:
        write(job, "trainer-0", "last\n")()
        job.write_end(STATUS, {"status": "finished"})

    pauses = Pauses(
        write(job, "trainer-0", "a line in "),
        write(job, "trainer-1", "new\n"),
        write(job, "trainer-0", "two pieces\n"),
        end,
    )
    monkeypatch.setattr(command, "time", pauses)
    assert printed("trainer", "-f", "--lines", 0) == [
        "trainer-1  | new",
        "trainer-0  | a line in two pieces",
        "trainer-0  | last",
    ]
    assert pauses.acts == []


def test_following_ends_by_ctrl_c_with_nothing_wrong(
    job: JobDir, monkeypatch: pytest.MonkeyPatch, printed: Callable[..., list[str]]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    pauses = Pauses(write(job, "trainer-0", "more\n"), interrupt)
    monkeypatch.setattr(command, "time", pauses)
    assert printed("trainer-0", "-f", "--lines", 1) == ["zero 29", "more"]

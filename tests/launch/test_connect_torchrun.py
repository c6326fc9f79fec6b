"""How a trainer of torchrun's ends: 0 unless all of torchrun's are to begin again."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from paceline.errors import JobFailed, UsageError
from paceline.launch import connect as connecting
from paceline.launch.guests import JobOver


class Ended(BaseException):
    """The process would have ended, with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def end(code: int) -> NoReturn:
    """In place of the process's end."""
    raise Ended(code)


class Scene:
    """A session that is left, and what the host has heard and says."""

    def __init__(self, *, anew: str | None = None, job: int = 0) -> None:
        self.heard: list[int] = []
        self._job = job
        had = (0, None)
        membership = SimpleNamespace(must_begin_again=anew, had=lambda: had)
        self.session: Any = SimpleNamespace(membership=membership, close=lambda: None)

    def part(self, status: int, _: object) -> int:
        """As of a visit."""
        self.heard.append(status)
        return self._job

    def leave(self, *, is_told: bool = False) -> int | None:
        """The code that the process ends with; None: as Python would end it."""
        notice: Any = SimpleNamespace(is_told=is_told)
        visit: Any = self
        try:
            connecting._part(self.session, Path("failure"), visit, notice)
        except Ended as ended:
            return ended.code
        return None


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(connecting, "_end_process", end)
    monkeypatch.setattr(connecting, "_failure", lambda: None)


def test_who_has_done_its_work_ends_as_python_does() -> None:
    scene = Scene()
    assert scene.leave() is None
    assert scene.heard == [0]


def test_who_was_told_to_leave_ends_with_0_and_the_job_hears_why() -> None:
    scene = Scene()
    assert scene.leave(is_told=True) == 0
    assert scene.heard == [75]


def test_who_is_ended_with_a_failed_job_ends_as_that_did() -> None:
    assert Scene(job=1).leave(is_told=True) == 1
    assert Scene(job=3).leave() == 3


def test_who_must_begin_again_has_all_begin_again() -> None:
    scene = Scene(anew="lost before break")
    assert scene.leave() == 75
    assert scene.heard == [75]


@pytest.mark.parametrize(("error", "code"), [(ValueError("x"), 1), (UsageError("x"), 2)])
def test_a_script_that_fails_says_how(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "_failure", lambda: error)
    told: list[Path] = []
    monkeypatch.setattr(connecting, "failure_of", lambda *_: None)
    monkeypatch.setattr(connecting, "write_failure", lambda path, _: told.append(path))
    scene = Scene()

    assert scene.leave() is None
    assert (scene.heard, told) == ([code], [Path("failure")])


@pytest.mark.parametrize(("status", "ends"), [(0, SystemExit), (1, JobFailed)])
def test_who_comes_once_the_job_is_over_ends_as_it_did(
    status: int, ends: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    over = JobOver("the job is over", status)
    monkeypatch.setattr("paceline.launch.torchrun.coming.come", lambda *_: over)
    monkeypatch.setattr("paceline.launch.torchrun.come", lambda *_: over)

    with pytest.raises(ends) as ended:
        connecting._come()
    assert getattr(ended.value, "code", 0) == 0

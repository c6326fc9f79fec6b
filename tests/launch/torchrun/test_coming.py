"""A process of torchrun's comes to the one process of its machine that gives roles."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.launch.guests import GuestHall, JobOver
from paceline.launch.job import UserScript
from paceline.launch.torchrun import coming
from paceline.launch.torchrun.above import Above
from paceline.launch.torchrun.coming import DOOR, LOCK, Birth, _folder, _start_first, come
from paceline.launch.torchrun.found import Torchrun
from paceline.timing import SystemClock
from paceline.transport.address import TcpAddress

SCRIPT = UserScript("train.py", ())
MEET = TcpAddress("10.0.0.1", 29400)
ALONE = Torchrun("7", os.getppid(), 4, 1, 1, None, is_elastic=False)
ELASTIC = Torchrun("7", os.getppid(), 4, 1, 3, MEET, is_elastic=True)
ROUND = {
    "TORCHELASTIC_RUN_ID": "7",
    "GROUP_WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "4",
}


@pytest.fixture(autouse=True)
def _folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as short:  # a socket's path is
        monkeypatch.setattr(tempfile, "tempdir", short)
        above = Above(os.getppid(), 5, ["torchrun", "train.py"])
        monkeypatch.setattr(coming, "find_torchrun", lambda *_: above)
        yield


def test_who_comes_once_the_job_is_over_is_told_how_it_was() -> None:
    hall = GuestHall(_folder(ALONE) / DOOR, SystemClock(), 60.0, lambda: None)
    over = JobOver("the job is over: trained", 0)
    hall.end(over)

    assert come(ROUND, SCRIPT) == over
    hall.close()


def birth_in(folder: Path) -> Birth:
    """What a daemon of `ALONE` would be told."""
    return Birth(str(folder), SCRIPT, ALONE, "")


def test_who_does_not_hold_the_lock_starts_nothing() -> None:
    folder = _folder(ALONE)
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert _start_first(folder, birth_in(folder)) is None


def test_a_folder_that_the_last_one_took_away_is_made_again() -> None:
    folder = _folder(ALONE)
    folder.rmdir()

    assert _start_first(folder, birth_in(folder)) is None
    assert folder.is_dir()


def test_what_a_killed_one_has_left_is_swept_a_day_later_unless_it_is_held() -> None:
    young, old, held = (_folder(ALONE._replace(parent=n)) for n in (1, 2, 3))
    for folder in (young, old, held):
        (folder / LOCK).touch()
    for folder in (old, held):
        os.utime(folder, (0, 0))
    with (held / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _folder(ALONE)

    assert [folder.exists() for folder in (young, old, held)] == [True, False, True]


def test_machines_runs_and_torchruns_that_are_not_elastic_are_kept_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folders = {_folder(ALONE), _folder(ALONE._replace(parent=1)), _folder(ELASTIC)}
    folders |= {_folder(ELASTIC._replace(run="8"))}
    monkeypatch.setenv("PACELINE_HOST", "another")
    folders |= {_folder(ELASTIC)}
    assert len(folders) == 5
    assert _folder(ELASTIC) == _folder(ELASTIC._replace(parent=1)), "it is started again"
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}


def test_a_folder_that_others_may_enter_is_refused() -> None:
    _folder(ALONE).chmod(0o755)

    with pytest.raises(UsageError, match="this user alone may enter"):
        _folder(ALONE)

"""Misfortune that goes wrong itself is told, never passed over."""

from pathlib import Path
from typing import Any

import psutil
import pytest

from paceline.launch.job.folder import JobDir
from paceline.testing import chaos
from paceline.testing.chaos import ChaosPlan, RandomKills, wait_chaos
from paceline.watch.summary import Ending

PLAN = ChaosPlan(Path("train.py"), "sync", kills=RandomKills(0, 3, 1.0))
GIVEN_UP_AT_ONCE = PLAN._replace(timeout_s=-10.0)


class Frozen:
    """Stopped when it is looked at, gone when it is to be woken."""

    pid = 17

    def status(self) -> str:
        return psutil.STATUS_STOPPED

    def send_signal(self, number: int) -> None:
        del number
        raise psutil.NoSuchProcess(self.pid)


class Victim:
    """A coordinator that is there again after every kill."""

    def name(self) -> str:
        return "coordinator"

    def status(self) -> str:
        return psutil.STATUS_SLEEPING

    def kill(self) -> None:
        pass


class NoForks:
    @property
    def pid(self) -> int:
        raise LookupError("no such fork server")


def test_a_frozen_process_that_is_gone_was_not_woken(tmp_path: Path) -> None:
    job = JobDir(tmp_path)
    misfortune = chaos._Misfortune(GIVEN_UP_AT_ONCE, job, NoForks())  # type: ignore[arg-type]

    misfortune._thaw(Frozen())
    misfortune._thaw(Frozen())

    assert misfortune.faults() == {}


def test_no_role_is_killed_so_often_that_the_job_must_be_given_up(tmp_path: Path) -> None:
    job = JobDir(tmp_path)
    misfortune = chaos._Misfortune(PLAN, job, NoForks())  # type: ignore[arg-type]
    kill = lambda: misfortune._kill_one([Victim()], ("coordinator",))  # type: ignore[list-item]  # noqa: E731

    assert [kill(), kill(), kill()] == [True, True, False]
    job.events.write_text('{"event":"progress","records":16}\n')
    assert kill()


def test_an_error_in_the_misfortune_interrupts_the_job_and_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    def wait_interrupted(*_: object, **__: object) -> Any:
        with chaos.Interrupts() as interrupts:
            while not interrupts.count:
                chaos.threading.Event().wait(0.01)
        ended.append(Ending.INTERRUPTED)

    monkeypatch.setattr(chaos, "wait_local_run", wait_interrupted)
    monkeypatch.setattr(chaos, "POLL_S", 0.05)
    with pytest.raises(LookupError, match="no such fork server"):
        wait_chaos(PLAN, tmp_path, NoForks())  # type: ignore[arg-type]

    assert ended == [Ending.INTERRUPTED]

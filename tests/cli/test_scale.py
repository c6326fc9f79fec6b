"""``paceline scale``: which job is meant, what reaches its coordinator."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.ids import COORDINATOR
from paceline.launch.job.files import write_secret
from paceline.launch.job.folder import JobDir, RunFile
from paceline.launch.job.operating import call_until_done, find_running
from paceline.launch.job.wiring import Wires
from paceline.messages.shared import Done, Refusal
from paceline.messages.watching import Scale
from paceline.timing import SystemClock
from paceline.transport.handshake import Secret
from paceline.transport.service import Peer, Reply
from tests.cli.running import exit_code


class StandInCoordinator:
    """Allows up to four trainers."""

    def __init__(self) -> None:
        self.asked: list[msgspec.Struct] = []

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: object, reply: Reply
    ) -> None:
        del peer, buffers
        assert isinstance(message, Scale)
        self.asked.append(message)
        text = f"expected 1 to 4 trainers, got {message.trainers}"
        is_allowed = message.trainers <= 4
        reply(Done() if is_allowed else Refusal(kind="invalid", text=text, timeline=0))

    def disconnected(self, peer: Peer) -> None:
        pass


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[StandInCoordinator]:
    """The coordinator of the job that runs in ``tmp_path / "runs" / "new"``."""
    service, address = StandInCoordinator(), "inproc:scaled"
    job = JobDir(tmp_path / "runs" / "new")
    job.claim(JobConfig(run="r"), "train.py")
    job.write_run(RunFile("r", address, str(tmp_path), 1))
    with Wires("r", COORDINATOR, SystemClock()).listen_as_coordinator(address, service):
        yield service


def test_a_running_job_is_scaled_by_its_folder(
    coordinator: StandInCoordinator, tmp_path: Path
) -> None:
    call_until_done(JobDir(tmp_path / "runs" / "new"), Scale(trainers=3), SystemClock())
    assert coordinator.asked == [Scale(trainers=3)]


def test_without_a_folder_the_job_that_runs_is_meant(
    coordinator: StandInCoordinator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended = JobDir(tmp_path / "runs" / "zz-ended")
    ended.claim(JobConfig(run="old"), "train.py")
    monkeypatch.chdir(tmp_path)
    assert exit_code(monkeypatch, "scale", 2) == 0
    assert coordinator.asked == [Scale(trainers=2)]
    assert "new: scaled to 2 trainers" in capsys.readouterr().out


@pytest.mark.usefixtures("coordinator")
def test_a_number_that_the_job_does_not_allow_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(monkeypatch, "scale", 9, tmp_path / "runs" / "new") == 2
    assert "expected 1 to 4 trainers, got 9" in capsys.readouterr().err


def test_a_folder_without_a_running_job_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no job that runs"):
        call_until_done(JobDir(tmp_path), Scale(trainers=2), SystemClock())


def test_when_no_job_runs_the_command_asks_for_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no job runs"):
        find_running(tmp_path)


def test_a_job_over_tcp_is_scaled_by_who_can_read_its_secret(tmp_path: Path) -> None:
    service, secret = StandInCoordinator(), Secret.fresh()
    job = JobDir(tmp_path / "job")
    job.claim(JobConfig(run="r"), "train.py")
    write_secret(job.secret, secret)
    wires = Wires("r", COORDINATOR, SystemClock(), secret=secret)
    with wires.listen_as_coordinator("tcp:127.0.0.1:0", service) as listener:
        job.write_run(RunFile("r", str(listener.address), str(tmp_path), 1))
        call_until_done(job, Scale(trainers=2), SystemClock())
    assert service.asked == [Scale(trainers=2)]


def test_a_folder_in_front_of_the_number_is_told_where_it_belongs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert exit_code(monkeypatch, "scale", tmp_path, 3) == 2
    assert "expected a number of trainers, and then the job" in capsys.readouterr().err

"""``paceline pace``: it asks until it is so, and says what is waited for."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from paceline.config import SSP, JobConfig
from paceline.ids import COORDINATOR
from paceline.launch.job.folder import JobDir, RunFile
from paceline.launch.job.wiring import Wires
from paceline.messages.shared import Done, Refusal, Waiting
from paceline.messages.waits import Wait
from paceline.messages.watching import ChangePace
from paceline.timing import SystemClock
from paceline.transport.service import Peer, Reply
from tests.cli.running import exit_code


class StandInCoordinator:
    """Pauses for two questions, and knows part 0 alone."""

    def __init__(self) -> None:
        self.asked: list[msgspec.Struct] = []

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: object, reply: Reply
    ) -> None:
        del peer, buffers
        assert isinstance(message, ChangePace)
        self.asked.append(message)
        if message.part not in {"", "0"}:
            text = f"there is no part {message.part!r}"
            reply(Refusal(kind="invalid", text=text, timeline=0))
        elif len(self.asked) < 3:
            reply(Waiting(wait=Wait("pace", "it waits for trainer-1 to give tasks back")))
        else:
            reply(Done())

    def disconnected(self, peer: Peer) -> None:
        pass


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[StandInCoordinator]:
    service, address = StandInCoordinator(), "inproc:repaced"
    job = JobDir(tmp_path / "job")
    job.claim(JobConfig(run="r"), "train.py")
    job.write_run(RunFile("r", address, str(tmp_path), 1))
    with Wires("r", COORDINATOR, SystemClock()).listen_as_coordinator(address, service):
        yield service


def test_it_asks_until_the_pace_has_changed_and_says_once_what_is_waited_for(
    coordinator: StandInCoordinator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code(monkeypatch, "pace", tmp_path / "job", "ssp:5") == 0
    assert coordinator.asked == [ChangePace(pace=SSP(staleness=5))] * 3
    told = capsys.readouterr()
    assert told.err.count("waits for trainer-1") == 1
    assert "all parts at ssp:5" in told.out


@pytest.mark.usefixtures("coordinator")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("ssp:5", "--part", "rows"), "there is no part 'rows'"),
        (("march:5",), "'march' is not one of"),
    ],
)
def test_what_cannot_be_is_wrong_usage(
    arguments: tuple[str, ...],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code(monkeypatch, "pace", tmp_path / "job", *arguments) == 2
    assert text in capsys.readouterr().err


def test_a_folder_without_a_running_job_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    JobDir(tmp_path / "job").claim(JobConfig(run="r"), "train.py")
    assert exit_code(monkeypatch, "pace", tmp_path / "job", "ssp:5") == 2
    assert "holds no job that runs" in capsys.readouterr().err


def test_a_pace_in_front_of_the_folder_is_told_where_it_belongs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(monkeypatch, "pace", "async", "runs/mine") == 2
    said = capsys.readouterr().err
    assert "the job folder comes first, as in paceline pace runs/mine ssp:5" in said

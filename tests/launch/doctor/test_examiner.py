"""Machines come, are examined and let go; what was written for that is removed."""

import threading
from pathlib import Path

import pytest

from paceline.errors import Interrupted, StoreError, UsageError
from paceline.launch.doctor import examiner
from paceline.launch.doctor.examiner import ExamWish, wait_examination
from paceline.launch.hosts import HostPlan, Listening, wait_host
from paceline.launch.job import LOOPBACK, ON_LOOPBACK, DoorLogs, JobDoor, UserScript
from paceline.launch.processes import Interrupts
from paceline.messages.hosts import AskPlace, JobPlace
from paceline.timing import SystemClock
from paceline.transport.address import TcpAddress
from paceline.transport.handshake import Secret
from paceline.transport.streams import hold_port

CLOCK = SystemClock()


class Exam:
    """An examination at loopback, and who comes to it."""

    def __init__(self, port: int, hosts: int = 1, within_s: float = 60.0) -> None:
        self.address, self.secret = TcpAddress(LOOPBACK, port), Secret.fresh()
        own = ON_LOOPBACK._replace(first=port, last=port)
        listening = Listening(own, hosts, self.secret)
        self.wish = ExamWish(listening, within_s)
        self.said: list[str] = []
        self.ends: list[str] = []

    def come(self, name: str) -> threading.Thread:
        """Another machine comes."""
        plan = HostPlan(self.address, ON_LOOPBACK, name, 2, self.secret)

        def be_host() -> None:
            self.ends.append(wait_host(plan, lambda _: None, CLOCK))

        thread = threading.Thread(target=be_host)
        thread.start()
        return thread

    def wait(self) -> examiner.ExamResult:
        """Examine."""
        return wait_examination(self.wish, self.said.append, CLOCK)


def test_machines_try_each_other_and_the_place_of_checkpoints_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("1")
    with hold_port(ON_LOOPBACK) as held:
        exam = Exam(held.first, hosts=2)
        exam.wish = exam.wish._replace(
            checkpoints=str(tmp_path / "cuts"), script=UserScript("train.py", ())
        )
        other = exam.come("other")
        result = exam.wait()
    other.join(10.0)

    assert not other.is_alive()
    assert [end.text for end in exam.ends] == ["the examination is over"]
    assert [finding for finding in result.findings if finding.is_wrong] == []
    assert len(result.examinees) == 2
    for one in result.examinees:
        assert [probe.error for probe in one.probes.values()] == [""]
        assert len(one.files) == 2
    assert list((tmp_path / "cuts").iterdir()) == []
    assert any("a machine comes by: paceline host --join" in line for line in exam.said)
    assert any(line.startswith("other has come (tcp:127.0.0.1:") for line in exam.said)


def test_who_does_not_come_in_time_is_missed() -> None:
    result = Exam(0, hosts=2, within_s=0.5).wait()

    told = [finding.text for finding in result.findings if finding.is_wrong]
    assert len(told) == 1
    assert told[0].startswith("1 of 2 machines have come: ")


def test_there_is_no_job_to_ask_for() -> None:
    asked: list[str] = []
    with hold_port(ON_LOOPBACK) as held:
        exam = Exam(held.first, hosts=2, within_s=0.5)

        def ask(text: str) -> None:
            door = DoorLogs(JobDoor(exam.address, exam.secret), CLOCK)
            with pytest.raises(UsageError, match="there is no job here"):
                door.ask(AskPlace(), JobPlace)
            door.close()
            asked.append(text)

        wait_examination(exam.wish, lambda text: None if asked else ask(text), CLOCK)
    assert asked


def test_whoever_is_told_to_stop_lets_all_go(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Interrupts()
    told.count = 1
    monkeypatch.setattr(examiner, "Interrupts", lambda: told)

    with pytest.raises(Interrupted, match="not examined to the end"):
        Exam(0).wait()

    assert not [t for t in threading.enumerate() if t.name.startswith("paceline")]


def test_a_place_that_cannot_be_made_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    exam = Exam(0)
    exam.wish = exam.wish._replace(checkpoints=str(tmp_path / "file" / "cuts"))

    with pytest.raises(StoreError):
        exam.wait()

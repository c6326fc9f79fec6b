"""A machine that is examined finds out what it is ordered to, once, and tells all of it."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from paceline.errors import Interrupted, JobFailed, PeerLost
from paceline.ids import HOST
from paceline.launch.hosts import examined as module
from paceline.launch.hosts.examined import Examined, facts
from paceline.launch.job import Wires
from paceline.launch.processes import Interrupts
from paceline.messages.hosts import (
    ExamJoined,
    ExamOrders,
    ExamReport,
    HostScript,
    JoinHost,
    ProbeResult,
)
from paceline.messages.shared import Refusal
from paceline.store.blobs import BlobStore
from paceline.timing import ManualClock
from paceline.transport.connection import Connection
from paceline.transport.patience import PatientConnection

COMING = JoinHost("t", "b", "tcp:10.0.0.2:5", 2)
OVER = ExamOrders(is_over=True)
WELL = ProbeResult(round_trip_s=0.001, bytes_per_s=1e9)


class Visit:
    """A machine that hears these orders, and what it tells."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, checkpoints: str, *answers: object
    ) -> None:
        self.clock, self.told = ManualClock(), list[ExamReport]()
        self.tried: list[str] = []
        self.interrupts = Interrupts()
        coming: Iterator[object] = iter(answers)

        def call(message: ExamReport, **_: object) -> SimpleNamespace:
            self.told.append(message)
            if isinstance(answer := next(coming), Exception):
                raise answer
            return SimpleNamespace(message=answer)

        def tried(connect: object, clock: object) -> ProbeResult:
            del connect, clock
            self.tried.append("once")
            return WELL

        connection = SimpleNamespace(call=call, close=lambda: None)
        self.link = PatientConnection(lambda: cast("Connection", connection))
        monkeypatch.setattr(module, "probe", tried)
        monkeypatch.setattr(module, "wait_any", lambda _, s: self.clock.advance(s))
        joined = ExamJoined(host="host-1", checkpoints=checkpoints)
        wires = Wires("", HOST, self.clock)
        self.examined = Examined(joined, COMING, wires, 60.0)

    def end(self) -> str:
        """How it ended."""
        return self.examined.wait_over(self.link, self.interrupts)


def test_each_way_is_tried_once_however_often_it_is_ordered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = ExamOrders(probes={"host-0": ("tcp:10.0.0.1:5", "t0")})
    visit = Visit(monkeypatch, "", order, PeerLost("away"), order, OVER)

    assert visit.end().text == "the examination is over"

    assert visit.tried == ["once"]
    assert [report.probes for report in visit.told] == [{}, *[{"host-0": WELL}] * 3]
    assert {report.host for report in visit.told} == {"host-1"}
    assert visit.told[0].facts.cores == 2


def test_what_it_writes_others_can_read_and_what_they_have_not_written_is_missed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    BlobStore(str(tmp_path)).write("theirs", [b"theirs"])
    orders = (ExamOrders(writes="mine"), ExamOrders(reads=("theirs", "none")))
    visit = Visit(monkeypatch, str(tmp_path), orders[0], orders[1], orders[1], OVER)

    visit.end()

    assert (tmp_path / "mine").read_bytes() == b"mine"
    files = visit.told[-1].files
    assert (files["mine"], files["theirs"]) == ("", "")
    assert "there is no such file" in files["none"]
    assert visit.clock.now_s() >= module.LATE_S


def test_a_place_that_is_not_there_is_said_and_not_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    visit = Visit(monkeypatch, str(away), ExamOrders(writes="mine"), OVER)

    visit.end()

    why = f"there is no folder {away} on this machine"
    assert visit.told[-1].files == {"mine": why}
    assert not away.exists()


def test_who_hears_nothing_goes_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    visit = Visit(monkeypatch, "", *[PeerLost("away")] * 400)

    with pytest.raises(JobFailed, match=r"nothing was heard of the examination for 60 s"):
        visit.end()


def test_who_was_given_up_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    visit = Visit(monkeypatch, "", Refusal(kind="invalid", text="it has been silent"))

    with pytest.raises(JobFailed, match="it has been silent"):
        visit.end()


def test_who_is_told_to_stop_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    visit = Visit(monkeypatch, "", Refusal(kind="invalid", text="so it is"))
    visit.interrupts.count = 1

    with pytest.raises(Interrupted):
        visit.end()

    assert visit.told[-1].leaves == "it was told to stop"


def test_a_machine_without_the_script_says_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("1")

    lacking = facts(2, HostScript("other.py", (), is_module=False, xxh3="ab"))
    another = facts(2, HostScript("train.py", (), is_module=False, xxh3="ab"))

    assert "there is no script 'other.py'" in lacking.lacks
    assert "train.py in" in another.lacks
    own = facts(2)
    assert own.lacks == ""
    assert own.memory_bytes > 0
    assert own.disk_bytes > 0
    assert own.num_files > 0
    assert {"Python", "paceline", "torch"} <= own.versions.keys()

"""The coordinator's service: what is journalled together, and before what."""

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from paceline.config import Async, JobConfig
from paceline.coordinator import storage as module
from paceline.coordinator.service import CoordinatorService
from paceline.coordinator.storage import read_journal
from paceline.errors import StoreError, StoreFull
from paceline.events import EventLog, event_lines
from paceline.messages.server import ServerReport
from paceline.messages.shared import Message, Waiting
from paceline.messages.trainer import Beat, Joined, JoinTrainer
from paceline.messages.watching import (
    AskStatus,
    Exited,
    JobStatus,
    LauncherOrders,
    LauncherReport,
)
from paceline.store.blobs.blobs import BlobStore
from paceline.store.journal import Journal
from paceline.timing import Clock, Deadline, SystemClock
from paceline.transport.service import Peer

LIMIT_S = 10.0
MOST_RECORDS = 8


class CountingClock(Clock):
    """A clock that moves only when told to, and counts who looks at it."""

    def __init__(self) -> None:
        self.moment_s = 0.0
        self.num_reads = 0

    def now_s(self) -> float:
        self.num_reads += 1
        return self.moment_s

    def worked_s(self) -> float:
        return 0.0


class Watched:
    """A journal that notes when it is written."""

    def __init__(self, journal: Journal, noted: list[str]) -> None:
        self._journal, self._noted = journal, noted
        self.is_full = False  # for `compact`
        self.refusal: StoreError | None = None  # of `append`

    @property
    def num_records(self) -> int:
        return self._journal.num_records

    def read(self) -> list[bytes]:
        return self._journal.read()

    def append(self, bodies: Sequence[bytes]) -> int:
        if self.refusal is not None:
            self._noted.append("refused")
            raise self.refusal
        self._noted.append(f"journal {len(bodies)}")
        return self._journal.append(bodies)

    def compact(self, body: bytes) -> int:
        self._noted.append("compact")
        if self.is_full:
            raise StoreError("the disk is full")
        return self._journal.compact(body)


class House:
    """A service that is asked directly, without a socket."""

    def __init__(self, folder: Path) -> None:
        self.noted: list[str] = []
        self.clock = CountingClock()
        self.journal = Journal(folder / "journal.sqlite")
        self.watched = Watched(self.journal, self.noted)
        self.events = EventLog(folder / "events.jsonl")
        config = JobConfig(run="run-1", trainers=1, servers=1, pace=Async())
        store = BlobStore(str(folder / "checkpoints"))
        watched: Any = self.watched
        self.service = CoordinatorService(config, watched, store, self.clock, self.events)
        self.folder = folder
        self.noted.clear()
        self.told: list[tuple[str, Message]] = []  # (role, what it was answered)

    def join(self, number: int, connection: int = 0, then: Any = None) -> int:
        """Let a trainer join; its incarnation, once it is told."""
        told: list[int] = []

        def reply(message: msgspec.Struct, buffers: Sequence[object] = ()) -> None:
            assert not buffers
            if isinstance(message, Waiting):
                return  # it is to ask again
            assert isinstance(message, Joined)
            told.append(message.incarnation)
            self.noted.append(f"told trainer-{number}")
            if then is not None:
                then()

        name = f"trainer-{number}"
        message = JoinTrainer(trainer=name, pid=1, host="here")
        self.service.received(self.peer(name, connection or number), message, (), reply)
        return told[0] if told else 0

    def beat(self, number: int, incarnation: int, connection: int) -> None:
        """Let a trainer give a sign of life over a connection."""
        beat = Beat(incarnation=incarnation, timeline=0, clock=0, state="training")
        peer = self.peer(f"trainer-{number}", connection)
        self.service.received(peer, beat, (), lambda _, __=(): None)

    def ask(self, role: str, message: Message, connection: int) -> None:
        """Ask something; the answer is added to `told`."""

        def reply(answer: msgspec.Struct, buffers: Sequence[object] = ()) -> None:
            assert isinstance(answer, Message)
            assert not buffers
            self.told.append((role, answer))

        self.service.received(self.peer(role, connection), message, (), reply)

    def answers(self, role: str) -> list[Message]:
        return [answer for asker, answer in self.told if asker == role]

    def fill(self) -> None:
        """The disk takes nothing more."""
        self.watched.refusal = StoreFull(
            "cannot append", str(self.folder), "the disk is full"
        )

    def wait_ticks(self, count: int) -> None:
        """Let seconds pass, so many, each seen by the coordinator."""
        deadline = Deadline(SystemClock(), LIMIT_S)
        for _ in range(count):
            self.clock.moment_s += 0.9  # less than what would be a stall
            seen = self.clock.num_reads
            while self.clock.num_reads < seen + 3:  # by the next tick, whole
                assert not deadline.is_over()
                threading.Event().wait(0.01)

    def peer(self, name: str, connection: int) -> Peer:
        return Peer(name, "run-1", 0, connection)

    def happened(self) -> list[str]:
        lines = event_lines(self.folder / "events.jsonl")
        return [str(msgspec.json.decode(line)["event"]) for line in lines]

    def close(self) -> None:
        self.service.close()
        self.events.close()
        self.journal.close()


def beat(incarnation: int) -> Beat:
    return Beat(incarnation=incarnation, timeline=0, clock=0, state="training")


def report(server: str) -> ServerReport:
    return ServerReport(
        server=server,
        incarnation=0,
        timeline=0,
        address="",
        pid=1,
        host="here",
        ready=True,
        parts={},
    )


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(module, "MOST_RECORDS", MOST_RECORDS)
    made = House(tmp_path)
    yield made
    made.close()


def test_all_that_waits_is_journalled_at_once_and_before_any_answer(house: House) -> None:
    def more() -> None:
        for number in (1, 2, 3):
            assert not house.join(number)  # the one at work comes to it later

    house.join(0, then=more)
    assert house.noted == [
        "journal 1",
        "told trainer-0",
        "journal 3",
        "told trainer-1",
        "told trainer-2",
        "told trainer-3",
    ]


def test_what_one_thread_brings_together_is_journalled_at_once(house: House) -> None:
    with house.service.together():
        assert not house.join(1)
        assert not house.join(2)
        assert house.noted == []
    assert house.noted == ["journal 2", "told trainer-1", "told trainer-2"]
    assert house.join(3), "and one by one again"


def test_what_others_bring_meanwhile_does_not_wait(house: House) -> None:
    with house.service.together():
        assert not house.join(1)
        other = threading.Thread(target=house.join, args=(2,))
        other.start()
        other.join(LIMIT_S)
        assert house.noted == ["journal 2", "told trainer-1", "told trainer-2"]
    assert house.noted.count("journal 2") == 1


def test_what_was_brought_before_an_error_is_seen_to(house: House) -> None:
    def fail() -> None:
        with house.service.together():
            house.join(1)
            raise RuntimeError("asked to fail")

    with pytest.raises(RuntimeError, match="asked to fail"):
        fail()
    assert house.noted == ["journal 1", "told trainer-1"]


def test_how_the_job_stands_is_told_as_soon_as_nobody_is_at_work(house: House) -> None:
    asking = threading.Thread(target=house.service.status)

    def ask() -> None:
        asking.start()
        asking.join(0.1)
        assert asking.is_alive(), "what was decided just now is still told"

    house.join(1, then=ask)
    asking.join(0.7)
    assert not asking.is_alive()


def test_a_long_journal_is_compacted_and_says_the_same(house: House) -> None:
    for number in range(30):
        house.join(number)
    assert house.noted.count("compact") >= 3
    assert house.journal.num_records <= MOST_RECORDS + 1
    assert read_journal(house.journal).trainers.keys() == {
        f"trainer-{number}" for number in range(30)
    }


def test_a_coordinator_that_has_come_back_says_so_among_the_events(house: House) -> None:
    house.join(0)
    assert "CoordinatorReturned" not in house.happened()
    store = BlobStore(str(house.folder / "checkpoints"))
    config, watched = house.service._config, cast("Any", house.watched)
    CoordinatorService(config, watched, store, house.clock, house.events)
    assert house.happened()[-1] == "CoordinatorReturned"


def test_a_disk_that_refuses_to_compact_is_not_asked_at_every_event(house: House) -> None:
    house.watched.is_full = True
    for number in range(30):
        house.join(number)
    assert 1 <= house.noted.count("compact") <= 4


def test_a_member_is_lost_with_its_last_connection_only(house: House) -> None:
    incarnation = house.join(1)
    house.beat(1, incarnation, connection=20)
    house.beat(1, incarnation, connection=21)
    house.service.start()
    house.service.disconnected(house.peer("trainer-1", 20))
    house.wait_ticks(5)
    assert "TrainerLost" not in house.happened()
    house.service.disconnected(house.peer("trainer-1", 21))
    house.wait_ticks(5)
    assert house.happened().count("TrainerLost") == 1


def test_the_launcher_is_told_which_process_coordinates(house: House) -> None:
    house.join(0)
    house.ask("launcher", LauncherReport(), 9)
    (orders,) = house.answers("launcher")
    assert isinstance(orders, LauncherOrders)
    assert [p.id for p in orders.status.processes] == ["coordinator", "trainer-0"]
    assert orders.status.processes[0].pid == os.getpid()


def test_on_a_full_disk_nobody_is_answered_but_with_the_reason(house: House) -> None:
    incarnation = house.join(0)
    house.service.start()
    house.fill()
    house.ask("trainer-1", JoinTrainer(trainer="trainer-1", pid=2, host="here"), 1)
    house.ask("launcher", LauncherReport(exits=(Exited("server-0", 3, 1),)), 9)
    house.ask("observer", AskStatus(), 10)
    house.ask("server-0", report("server-0"), 11)
    house.ask("trainer-0", beat(incarnation), 0)
    house.wait_ticks(3)
    assert "told trainer-1" not in house.noted
    place = house.folder
    for role in ("trainer-0", "trainer-1", "server-0"):
        (waiting, *_) = house.answers(role)
        assert isinstance(waiting, Waiting)
        assert waiting.is_held
        said = f"waiting for space on the disk of {place}: the disk is full, since "
        assert waiting.wait.reason.startswith(said)
    (status,) = house.answers("launcher")
    assert isinstance(status, JobStatus), "no exit is acknowledged"
    assert status.trouble is not None
    assert status.trouble.kind == "journal"
    assert [p.id for p in status.processes] == ["coordinator", "trainer-0", "trainer-1"]
    (seen,) = house.answers("observer")
    assert isinstance(seen, JobStatus)
    assert seen.trouble is not None


def test_with_space_again_all_goes_on_as_it_was_decided(house: House) -> None:
    house.service.start()
    house.fill()
    house.join(0)
    house.wait_ticks(5)
    assert 3 <= house.noted.count("refused") <= 6, "it is tried about once a second"
    house.watched.refusal = None
    house.wait_ticks(2)
    assert "journal 1" in house.noted
    assert list(read_journal(house.journal).trainers) == ["trainer-0"]
    assert house.join(1) == 2
    assert "DiskAwaited" in house.happened()
    house.ask("observer", AskStatus(), 10)
    assert house.answers("observer")[-1].trouble is None  # type: ignore[attr-defined]


def test_a_full_disk_is_nobodys_silence(house: House) -> None:
    incarnation = house.join(0)
    house.beat(0, incarnation, connection=0)
    house.service.start()
    house.wait_ticks(5)
    house.fill()
    house.join(1)
    house.clock.moment_s += 60.0  # its time-out is 10 s, of which 4.5 s had passed
    house.wait_ticks(1)
    house.watched.refusal = None
    house.wait_ticks(5)
    assert "TrainerLost" not in house.happened()
    house.wait_ticks(5)
    assert "TrainerLost" in house.happened(), "its time goes on where it stood"


def test_who_comes_back_during_a_full_disk_never_went(house: House) -> None:
    incarnation = house.join(0)
    house.beat(0, incarnation, connection=20)
    house.service.start()
    house.fill()
    house.join(1)
    house.service.disconnected(house.peer("trainer-0", 20))
    house.beat(0, incarnation, connection=21)
    house.wait_ticks(3)
    house.watched.refusal = None
    house.wait_ticks(4)
    assert "TrainerLost" not in house.happened()


def test_a_job_ends_on_a_full_disk_as_well(house: House) -> None:
    house.service.start()
    house.fill()
    house.join(0)
    house.wait_ticks(2)
    began = SystemClock().now_s()
    house.service.finish()
    house.service.close()
    assert SystemClock().now_s() - began < 3.0


def test_a_run_that_cannot_be_journalled_does_not_begin(house: House) -> None:
    house.fill()
    config = JobConfig(run="run-2")
    store = BlobStore(str(house.folder / "checkpoints"))
    watched: Any = house.watched
    with pytest.raises(StoreFull, match="cannot append"):
        CoordinatorService(config, watched, store, house.clock, house.events)

"""The coordinator's service: what is journalled together, and before what."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.config import Async, JobConfig
from paceline.coordinator import service as module
from paceline.coordinator.opening import read_journal
from paceline.coordinator.service import CoordinatorService
from paceline.errors import StoreError
from paceline.events import EventLog, event_lines
from paceline.messages import Beat, Joined, JoinTrainer
from paceline.store.blobs import BlobStore
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
        self.is_full = False

    @property
    def num_records(self) -> int:
        return self._journal.num_records

    def read(self) -> list[bytes]:
        return self._journal.read()

    def append(self, bodies: Sequence[bytes]) -> int:
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

    def join(self, number: int, connection: int = 0, then: Any = None) -> int:
        """Let a trainer join; its incarnation, once it is told."""
        told: list[int] = []

        def reply(message: msgspec.Struct, buffers: Sequence[object] = ()) -> None:
            assert isinstance(message, Joined)
            assert not buffers
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


def test_a_long_journal_is_compacted_and_says_the_same(house: House) -> None:
    for number in range(30):
        house.join(number)
    assert house.noted.count("compact") >= 3
    assert house.journal.num_records <= MOST_RECORDS + 1
    assert read_journal(house.journal).trainers.keys() == {
        f"trainer-{number}" for number in range(30)
    }


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

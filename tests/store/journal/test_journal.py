"""The journal keeps what it acknowledged, notices what was altered, and has one opener."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline import failpoints
from paceline.errors import JournalCorrupt, StoreError
from paceline.failpoints import InjectedFault
from paceline.store.journal import Journal

RECORDS = [b"granted 1", b"", b"done \x00\xff", b"granted 2" * 50, b"round 7"]


@pytest.fixture
def path() -> Iterator[Path]:
    """In memory where there is such a folder: killing a process is the same there."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder) / "journal.sqlite"


@pytest.fixture(autouse=True)
def disarm() -> Iterator[None]:
    yield
    failpoints.arm("")


def reopened(path: Path) -> list[bytes]:
    journal = Journal(path)
    try:
        return journal.read()
    finally:
        journal.close()


def filled(path: Path) -> None:
    journal = Journal(path)
    journal.append(RECORDS)
    journal.close()


def alter(path: Path, statement: str, *values: object) -> None:
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = OFF")
    with database:
        assert database.execute(statement, values).rowcount > 0
    database.close()


def test_records_come_back_in_order_and_numbers_grow(path: Path) -> None:
    journal = Journal(path)
    assert journal.append(RECORDS[:2]) == 2
    assert journal.append([]) == 2
    assert journal.append(RECORDS[2:]) == 5
    assert journal.read() == RECORDS
    assert journal.num_records == len(RECORDS)
    journal.close()
    journal.close()
    assert reopened(path) == RECORDS


def test_compacted_journal_counts_from_its_snapshot_on(path: Path) -> None:
    filled(path)
    journal = Journal(path)
    assert journal.num_records == len(RECORDS)
    journal.compact(b"all of it")
    assert journal.num_records == 1
    journal.append(RECORDS[:2])
    journal.close()
    journal = Journal(path)
    assert journal.num_records == 3
    journal.close()


@given(
    groups=st.lists(
        st.tuples(st.booleans(), st.lists(st.binary(max_size=40), max_size=4)), max_size=6
    )
)
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_reading_after_reopening_equals_having_been_there(
    path: Path, groups: list[tuple[bool, list[bytes]]]
) -> None:
    journal = Journal(path)
    number = journal.compact(b"start")
    expected = [b"start"]
    for is_compaction, bodies in groups:
        if is_compaction and bodies:
            journal.compact(bodies[0])
            expected, number = bodies[:1], number + 1
        elif not is_compaction:
            journal.append(bodies)
            expected, number = expected + bodies, number + len(bodies)
        assert journal.append([]) == number
    journal.close()
    assert reopened(path) == expected


_APPENDER = """
import sys
from pathlib import Path
from paceline.store.journal import Journal

journal = Journal(Path(sys.argv[1]))
number = 0
while True:
    number = journal.append([b"record %d" % (number + i + 1) for i in range(3)])
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


@pytest.mark.system
def test_acknowledged_records_survive_kill_9(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _APPENDER, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as child:
        assert child.stdout is not None
        for _ in range(40):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        acknowledged = [int(line) for line in child.stdout.read().splitlines(True)[:-1]]
    assert child.returncode == -signal.SIGKILL
    records = reopened(path)
    assert len(records) >= max(acknowledged, default=120)
    assert records == [b"record %d" % (i + 1) for i in range(len(records))]


@pytest.mark.parametrize(
    ("statement", "record"),
    [
        ("UPDATE records SET body = body || x'00' WHERE seq = 3", 3),
        ("UPDATE records SET body = 'granted 3' WHERE seq = 1", 1),
        ("UPDATE records SET body = NULL WHERE seq = 2", 2),
        ("UPDATE records SET chain = x'0011223344556677' WHERE seq = 4", 4),
        ("DELETE FROM records WHERE seq = 1", 2),
        ("DELETE FROM records WHERE seq = 3", 4),
        ("UPDATE records SET seq = 9 WHERE seq = 5", 9),
    ],
)
def test_altered_dropped_or_moved_record_is_named(
    path: Path, statement: str, record: int
) -> None:
    filled(path)
    alter(path, statement)
    with pytest.raises(JournalCorrupt, match=rf"journal\.sqlite: record {record} does not"):
        reopened(path)


def test_swapped_records_are_noticed(path: Path) -> None:
    filled(path)
    alter(path, "UPDATE records SET seq = -1 WHERE seq = 1")
    alter(path, "UPDATE records SET seq = 1 WHERE seq = 5")
    alter(path, "UPDATE records SET seq = 5 WHERE seq = -1")
    with pytest.raises(JournalCorrupt, match="record 1 does not match"):
        reopened(path)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM records WHERE seq = 5", "the last record is 4, but record 5"),
        ("DELETE FROM records", "there is no record, but record 5"),
        ("UPDATE head SET seq = 4", "the last record is 5, but record 4"),
        ("UPDATE head SET chain = x'00'", "the last record is 5, but record 5"),
        ("UPDATE head SET chain = NULL", "expected one head"),
        ("DELETE FROM head", "expected one head"),
    ],
)
def test_lost_tail_is_noticed(path: Path, statement: str, message: str) -> None:
    filled(path)
    alter(path, statement)
    with pytest.raises(JournalCorrupt, match=message):
        reopened(path)


def test_flipped_bit_of_a_body_is_noticed(path: Path) -> None:
    filled(path)
    whole = RECORDS[2]
    for bit in range(0, 8 * len(whole), 3):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        alter(path, "UPDATE records SET body = ? WHERE seq = 3", bytes(flipped))
        with pytest.raises(JournalCorrupt, match="record 3"):
            reopened(path)


def test_flipped_byte_of_the_file_never_changes_what_is_read(path: Path) -> None:
    filled(path)
    pristine = path.read_bytes()
    dice = random.Random(7)
    noticed = 0
    used = [i for i, byte in enumerate(pristine) if byte]
    for _ in range(60):
        damaged = bytearray(pristine)
        damaged[dice.choice(used)] ^= 1 << dice.randrange(8)
        path.write_bytes(damaged)
        try:
            assert reopened(path) == RECORDS
        except StoreError:
            noticed += 1
    assert noticed > 20


def live_copy(path: Path, to: Path) -> tuple[Path, bytes]:
    """What a killed process leaves: the file, and its log with three transactions."""
    journal = Journal(path)
    for record in RECORDS[:3]:
        journal.append([record])
    shutil.copy(path, to)
    log = Path(f"{path}-wal").read_bytes()
    journal.close()
    return to, log


def test_torn_tail_ends_at_the_last_whole_record(path: Path) -> None:
    copy, log = live_copy(path, path.with_name("copy.sqlite"))
    pristine = copy.read_bytes()
    before_last = len(log) - 2 * (4096 + 24)
    for cut_at in [*range(before_last, len(log), 611), len(log) - 1]:
        copy.write_bytes(pristine)
        Path(f"{copy}-wal").write_bytes(log[:cut_at])
        assert reopened(copy) == RECORDS[:2]


def test_flip_in_the_middle_of_the_log_is_no_torn_tail(path: Path) -> None:
    copy, log = live_copy(path, path.with_name("copy.sqlite"))
    pristine = copy.read_bytes()
    last = len(log) - 2 * (4096 + 24)
    for position in [*range(0, last, 509), 32, 36, 40, 48, 55, last - 4096 - 20]:
        damaged = bytearray(log)
        damaged[position] ^= 0x10
        copy.write_bytes(pristine)
        Path(f"{copy}-wal").write_bytes(damaged)
        with pytest.raises(JournalCorrupt, match=r"move the journal away"):
            reopened(copy)


@pytest.mark.parametrize("is_compaction", [False, True])
def test_fault_before_commit_leaves_the_old_records(
    path: Path, is_compaction: bool
) -> None:
    journal = Journal(path)
    journal.append(RECORDS)
    failpoints.arm("journal.before_commit=error@1")
    change = journal.compact if is_compaction else lambda body: journal.append([body])
    with pytest.raises(InjectedFault):
        change(b"lost")
    assert journal.read() == RECORDS
    assert journal.append([b"next"]) == 6
    journal.close()
    assert reopened(path) == [*RECORDS, b"next"]


def test_fault_after_commit_leaves_the_new_record(path: Path) -> None:
    journal = Journal(path)
    journal.append(RECORDS)
    failpoints.arm("journal.after_commit=error@1")
    with pytest.raises(InjectedFault):
        journal.compact(b"snapshot")
    assert journal.append([b"next"]) == 7
    journal.close()
    assert reopened(path) == [b"snapshot", b"next"]


def test_second_opener_is_told_who_holds_the_journal(path: Path) -> None:
    first = Journal(path)
    with pytest.raises(StoreError, match=rf"another coordinator \(pid {os.getpid()}\)"):
        Journal(path)
    first.append([b"still mine"])
    first.close()
    assert reopened(path) == [b"still mine"]


def test_full_disk_acknowledges_nothing_and_goes_on_with_space(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def connect_and_keep(*args: object, **options: object) -> sqlite3.Connection:
        opened.append(connect(*args, **options))  # type: ignore[call-overload]
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", connect_and_keep)
    journal = Journal(path)
    journal.append(RECORDS)
    (pages,) = opened[0].execute("PRAGMA page_count").fetchone()
    opened[0].execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="disk is full; nothing acknowledged is lost"):
        journal.append([b"small", bytes(100_000)])
    assert journal.read() == RECORDS
    opened[0].execute("PRAGMA max_page_count = 1000000")
    assert journal.append([bytes(100_000)]) == 6
    journal.close()
    assert reopened(path) == [*RECORDS, bytes(100_000)]


def test_file_of_another_kind_or_format_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to look like a file" * 100)
    with pytest.raises(JournalCorrupt, match="cannot open"):
        Journal(path)
    path.unlink()
    filled(path)
    alter_version = sqlite3.connect(path)
    alter_version.execute("PRAGMA user_version = 99")
    alter_version.close()
    with pytest.raises(StoreError, match="format 99, but this paceline reads format 3"):
        Journal(path)


def test_closed_journal_refuses(path: Path) -> None:
    journal = Journal(path)
    journal.close()
    with pytest.raises(StoreError, match="closed database"):
        journal.append([b"late"])


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere/journal\.sqlite\.lock"):
        Journal(tmp_path / "nowhere" / "journal.sqlite")

"""The coordinator's journal: outcomes that cannot be asked for again, on SQLite.

Rules:

* what `Journal.append` has returned for survives ``kill -9`` of every process (a
  write-ahead log with ``synchronous=NORMAL``); after a power loss the newest records may
  be missing, and the job goes back to its last cut;
* a record's check is the xxh3-64 of (number, body, check of the record before), so that
  an altered, dropped or reordered record breaks the chain; one more row, the head, holds
  the number and check of the last record, so that a lost tail is seen too;
* the first record's predecessor is eight zero bytes: so `Journal.compact` starts a new
  chain, while numbers go on growing;
* one opener: a lock on ``<path>.lock`` is held as long as the journal is open.

SQLite ends a write-ahead log at the first frame that does not check. That is right for a
torn tail and wrong for a flipped byte in the middle, behind which acknowledged transactions
vanish without a word. The two are told apart by what lies behind the break::

    header | frame frame* | frame frame* | frame fra          torn: nothing behind it
    header | frame frame* | frXme frame* | frame frame*       flipped: a transaction, and
                                                              the beginning of a next one

A transaction is begun only after the one before it was written whole, so a transaction
with a frame of the same log behind it was acknowledged. (A flip in the very last
transaction looks exactly like a torn tail and ends like one.) Format:
https://www.sqlite.org/fileformat2.html#the_write_ahead_log

Waits: for the disk, in every method. One thread at a time, any thread.
"""

import contextlib
import os
import sqlite3
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import final

import xxhash

from paceline.errors import JournalCorrupt, StoreError, StoreFull, why_full
from paceline.failpoints import failpoint
from paceline.machine import AS_BYTES, hold_file
from paceline.timing import Deadline

FORMAT = 3
_CHAIN_START = bytes(8)
_SCHEMA = (
    "CREATE TABLE records (seq INTEGER PRIMARY KEY, body BLOB, chain BLOB)",
    "CREATE TABLE head (seq INTEGER, chain BLOB)",
    f"INSERT INTO head VALUES (0, x'{_CHAIN_START.hex()}')",
    f"PRAGMA user_version = {FORMAT}",
)
_GO_BACK = "move the journal away and the job goes on from its last cut"
_CORRUPT_CODES = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT}
)
_REFUSES = "the disk refuses to write"  # SQLite tells a quota and a broken disk alike
_FULL_CODES = {  # {code: why nothing can be written}
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the disk is read-only",
    sqlite3.SQLITE_IOERR_WRITE: _REFUSES,
    sqlite3.SQLITE_IOERR_FSYNC: _REFUSES,
    sqlite3.SQLITE_IOERR_TRUNCATE: _REFUSES,
}
_LOCK_POLL_S = 0.05
_PRIMARY_CODE = 0xFF  # an extended SQLite code carries its primary code in the low byte


def wait_until_free(path: Path, deadline: Deadline) -> None:
    """Wait until nobody holds the journal at ``path``, if there is one.

    Raises:
        StoreError: somebody still holds it when the deadline is over.
    """
    while True:
        try:
            os.close(_lock(path))
        except StoreError:
            if deadline.is_over():
                raise
            time.sleep(_LOCK_POLL_S)
        else:
            return


@final
class Journal:
    """A chain of byte records in one file, appended in groups and read as a whole."""

    def __init__(self, path: Path) -> None:
        """Open the journal at ``path``, or make it in the existing folder.

        Raises:
            StoreError: another process holds it, or its format is unknown.
            StoreFull: the disk takes nothing more.
            JournalCorrupt: the file is no journal, or has lost acknowledged records.
        """
        self._path = path
        self._held = contextlib.ExitStack()  # the lock, and the connection once open
        self._held.callback(os.close, _lock(path))
        try:
            with self._translated("open"):
                self._db = self._connect()
                self._prepare()
                self._seq, self._chain = self._read_head()
                (first,) = self._db.execute("SELECT MIN(seq) FROM records").fetchone()
                self._first = self._seq + 1 if first is None else int(first)
        except BaseException:
            self.close()
            raise

    @property
    def num_records(self) -> int:
        """How many records `read` returns: all since the last compaction."""
        return self._seq - self._first + 1

    def append(self, bodies: Sequence[bytes]) -> int:
        """Add records in one transaction; durable when it returns. The last one's number.

        After an error none of them is in the journal, and the same call may be repeated.

        Raises:
            StoreFull: the disk takes nothing more.
            StoreError: anything else.
        """
        seq, chain = self._seq, self._chain
        rows = []
        for body in bodies:
            seq += 1
            chain = _link(seq, body, chain)
            rows.append((seq, body, chain))
        if rows:
            with self._transaction(f"append records {self._seq + 1} to {seq}"):
                self._db.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)
                self._db.execute("UPDATE head SET seq = ?, chain = ?", (seq, chain))
            self._seq, self._chain = seq, chain
            failpoint("journal.after_commit")
        return seq

    def compact(self, body: bytes) -> int:
        """Replace all records by this one, a snapshot of what they led to; its number.

        Atomic: whenever the process dies, either the old records are there or this one.

        Raises:
            StoreFull: the disk takes nothing more; the old records stay.
            StoreError: anything else; the same.
        """
        seq = self._seq + 1
        chain = _link(seq, body, _CHAIN_START)
        with self._transaction(f"compact into record {seq}"):
            self._db.execute("DELETE FROM records")
            self._db.execute("INSERT INTO records VALUES (?, ?, ?)", (seq, body, chain))
            self._db.execute("UPDATE head SET seq = ?, chain = ?", (seq, chain))
        self._first, self._seq, self._chain = seq, seq, chain
        failpoint("journal.after_commit")
        return seq

    def read(self) -> list[bytes]:
        """All records, oldest first; every one is checked before any is returned.

        Raises:
            JournalCorrupt: names the first record that does not match its check.
        """
        bodies: list[bytes] = []
        seq, chain = 0, _CHAIN_START
        with self._translated("read"):
            rows = self._db.execute("SELECT seq, body, chain FROM records ORDER BY seq")
            for seq, body, stored in rows:
                is_record = isinstance(seq, int) and isinstance(body, bytes)
                chain = _link(seq, body, chain) if is_record else b""
                if not is_record or chain != stored:
                    raise JournalCorrupt(
                        f"{self._path}: record {seq} does not match its check (expected "
                        f"{chain.hex()}, came {_shown(stored)}): it or the record before "
                        f"it was altered, dropped or moved; {_GO_BACK}"
                    )
                bodies.append(body)
        if bodies and (seq, chain) != (self._seq, self._chain):
            raise self._behind_head(f"the last record is {seq}")
        if not bodies and self._seq:
            raise self._behind_head("there is no record")
        return bodies

    def close(self) -> None:
        """Give the file back to other openers; closing again does nothing."""
        self._held.close()

    def _connect(self) -> sqlite3.Connection:
        """Open the file in the modes that the module promises."""
        acknowledged = acknowledged_frames(Path(f"{self._path}-wal"))
        database = sqlite3.connect(
            self._path, timeout=0, isolation_level=None, check_same_thread=False
        )
        self._held.callback(database.close)
        database.text_factory = bytes
        database.execute("PRAGMA locking_mode = EXCLUSIVE")  # no shared-memory file
        mode = database.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != b"wal":
            raise StoreError(
                f"{self._path}: expected SQLite to keep a write-ahead log here, got "
                f"{mode!r}; put the job folder on a local disk"
            )
        database.execute("PRAGMA synchronous = NORMAL")
        _, recovered, _ = database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if recovered < acknowledged:
            raise JournalCorrupt(
                f"{self._path}-wal: {acknowledged} frames were acknowledged, {recovered} "
                f"can be read: records are damaged; {_GO_BACK}"
            )
        return database

    def _prepare(self) -> None:
        """Make the tables of a new file; refuse one of another format."""
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            with self._transaction("make tables"):
                for statement in _SCHEMA:
                    self._db.execute(statement)
        elif version != FORMAT:
            raise StoreError(
                f"{self._path}: format {version}, but this paceline reads format {FORMAT}; "
                f"resume with the version that wrote it, or {_GO_BACK}"
            )

    def _read_head(self) -> tuple[int, bytes]:
        """The number and check of the last record."""
        heads = self._db.execute("SELECT seq, chain FROM head").fetchall()
        match heads:
            case [(int(seq), bytes(chain))]:
                return seq, chain
        raise JournalCorrupt(f"{self._path}: expected one head, got {heads}; {_GO_BACK}")

    def _behind_head(self, found: str) -> JournalCorrupt:
        return JournalCorrupt(
            f"{self._path}: {found}, but record {self._seq} with check "
            f"{self._chain.hex()} was written last; {_GO_BACK}"
        )

    @contextlib.contextmanager
    def _transaction(self, action: str) -> Iterator[None]:
        """Commit what the body does as a whole, or nothing of it."""
        with self._translated(action):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                failpoint("journal.before_commit")
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite itself rolls back on a full disk
                    self._db.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        """Turn errors of SQLite into errors of the house."""
        try:
            yield
        except sqlite3.Error as error:
            extended = getattr(error, "sqlite_errorcode", 0)
            code = extended & _PRIMARY_CODE
            where = f"{self._path}: cannot {action}"
            if code in _CORRUPT_CODES:
                raise JournalCorrupt(f"{where}: {error}; {_GO_BACK}") from error
            why = _FULL_CODES.get(extended) or _FULL_CODES.get(code)
            if why is not None:
                said = f"{why} ({error})" if why == _REFUSES else why
                raise StoreFull(
                    f"{where}: {said}; nothing acknowledged is lost, free space there and "
                    "it goes on",
                    str(self._path.parent),
                    why,
                ) from error
            raise StoreError(f"{where}: {error}") from error


def _link(seq: int, body: bytes, previous: bytes) -> bytes:
    """The check of a record: eight bytes that depend on all records before it."""
    return xxhash.xxh3_64_digest(seq.to_bytes(8, "little", signed=True) + body + previous)


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


def _lock(path: Path) -> int:
    """Become the only opener of ``path``; the descriptor that holds the lock."""
    lock_path = Path(f"{path}.lock")
    try:
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | AS_BYTES, 0o600)
    except OSError as error:
        said = f"{lock_path}: cannot make the journal's lock: {error}"
        if (why := why_full(error)) is not None:
            raise StoreFull(said, str(path.parent), why) from error
        raise StoreError(said) from error
    try:
        hold_file(descriptor)
        os.truncate(descriptor, 0)
        with contextlib.suppress(OSError):  # a full disk: it only tells whose it is
            os.write(descriptor, b"%d\n" % os.getpid())
    except OSError as error:
        holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise StoreError(f"{lock_path}: cannot lock the journal: {error}") from error
        raise StoreError(
            f"{path}: held by another coordinator (pid {holder}); a job has one: stop that "
            f"process, or choose another job folder"
        ) from None
    return descriptor


_HEADER = struct.Struct(">8I")  # magic, format, page size, sequence, salt x 2, check x 2
_FRAME = struct.Struct(">6I")  # page, pages after commit or 0, salt x 2, check x 2
_MAGIC = 0x377F0682  # the lowest bit says that checksums read big-endian words
_WORD = 0xFFFFFFFF


def acknowledged_frames(log: Path) -> int:
    """Frames of a log that were certainly acknowledged; recovery must find at least these.

    A damaged header in front of frames counts as one frame, of which SQLite recovers
    none. Zero for a missing, empty or torn log.
    """
    try:
        file = log.open("rb")
    except FileNotFoundError:
        return 0
    with file:
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            return 0
        _, _, page_bytes, _, *salt, _, _ = _HEADER.unpack(head)
        frame_bytes = _FRAME.size + page_bytes
        body_bytes = log.stat().st_size - _HEADER.size
        if not _header_checks(head):
            return int(body_bytes > 0)
        acknowledged = committed = 0
        for number in range(1, body_bytes // frame_bytes + 1):
            file.seek(_HEADER.size + (number - 1) * frame_bytes)
            _, pages_after_commit, *frame_salt, _, _ = _FRAME.unpack(file.read(_FRAME.size))
            if frame_salt == salt:
                acknowledged = committed
                committed = number if pages_after_commit else committed
        return acknowledged


def _header_checks(head: bytes) -> bool:
    """Whether the header's own checksum, over its first six words, is right."""
    magic, *_, expected_0, expected_1 = _HEADER.unpack(head)
    words = struct.unpack(">6I" if magic & 1 else "<6I", head[:24])
    sum_0 = sum_1 = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        sum_0 = (sum_0 + even + sum_1) & _WORD
        sum_1 = (sum_1 + odd + sum_0) & _WORD
    return magic & ~1 == _MAGIC and (sum_0, sum_1) == (expected_0, expected_1)

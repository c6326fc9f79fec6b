"""The lines of an ``events.jsonl`` as they come, and behind the place where it moves on.

Waits: for the file system. One thread.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, final

import msgspec
import xxhash

from paceline.events import num_moves, older

MOST_AT_ONCE = 4 << 20  # bytes: a page is told in between
_HEAD = 4096  # of a file's first line: enough to know it by


class LogPlace(msgspec.Struct, frozen=True):
    """How far a log has been read.

    Attributes:
        file: what its first line comes to, by which a file is known, also after a copy.
        at: how many of its bytes are read, all of them whole lines.
    """

    file: str
    at: int


@final
class Tail:
    """Reads a log from its beginning, or from a place, as far as there are whole lines."""

    def __init__(self, path: Path, place: LogPlace | None = None) -> None:
        """Nothing is read; the file need not be there yet.

        If the file of ``place`` is gone, what is there is read from its beginning, since
        all of it is newer; `has_gap` says so. So it does if the log has moved on so often
        between two looks that a file went unread.
        """
        self.has_gap = False  # before the lines that were read last, some are gone unread
        self._path, self._sought = path, place
        self._file: IO[bytes] | None = None
        self._name = ""  # what the first line of the open file comes to
        self._at = 0  # bytes of it that were read as whole lines
        self._num_moves: int | None = None  # before it; None: there was none before it
        self._rest = b""

    def read(self) -> list[dict[str, Any]]:
        """What has come since; lines that cannot be read are left out."""
        found = list(self._lines())
        events = []
        for line in found:
            try:
                events.append(msgspec.json.decode(line, type=dict[str, Any]))
            except msgspec.DecodeError:
                continue
        return events

    @property
    def place(self) -> LogPlace | None:
        """Behind the last line that was read; None: nothing was."""
        if self._file is None:
            return self._sought
        return LogPlace(self._name, self._at) if self._at else None

    def close(self) -> None:
        """Read nothing more."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _lines(self) -> Iterator[bytes]:
        if self._file is None and not self._open_first():
            return
        assert self._file is not None
        read = self._file.read(MOST_AT_ONCE)
        if not read and self._has_moved():
            # Nobody writes to it any more: what came since the look above is the last.
            read = self._file.read(MOST_AT_ONCE)
            if not read:
                self._turn_to(self._next())
                read = self._file.read(MOST_AT_ONCE)
        *lines, self._rest = (self._rest + read).split(b"\n")
        self._at += sum(map(len, lines)) + len(lines)
        if lines and not self._name:
            self._name = _name_of(self._file)
            self._note_moves()
        yield from lines

    def _open_first(self) -> bool:
        files = []
        for path in (older(self._path), self._path):
            with suppress(FileNotFoundError):
                files.append(path.open("rb"))
        if not files:
            return False
        chosen, at = files[0], 0
        if self._sought is not None:
            known = [file for file in files if _name_of(file) == self._sought.file]
            self.has_gap = not known
            if known:
                chosen, at = known[0], self._sought.at
        for file in files:
            if file is not chosen:
                file.close()
        self._turn_to(chosen, at)
        return True

    def _next(self) -> IO[bytes]:
        """The file behind the one that is read; it may have moved on, too."""
        assert self._file is not None
        with suppress(FileNotFoundError):
            old = older(self._path).open("rb")
            if not os.path.sameopenfile(old.fileno(), self._file.fileno()):
                return old
            old.close()
        return self._path.open("rb")

    def _turn_to(self, file: IO[bytes], at: int = 0) -> None:
        if self._file is not None:
            self._file.close()
        file.seek(at)
        self._file, self._at, self._rest = file, at, b""
        self._name = _name_of(file) if at else ""
        if at:
            self._note_moves()

    def _note_moves(self) -> None:
        """Look whether the file that is read now is the next after the one before it."""
        assert self._file is not None
        moves = num_moves(_head_of(self._file))
        if moves and self._num_moves is not None:  # an older version did not number them
            self.has_gap |= moves != self._num_moves + 1
        self._num_moves = moves

    def _has_moved(self) -> bool:
        """Whether another file lies where the one that is read was."""
        assert self._file is not None
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        own = os.fstat(self._file.fileno())
        return (own.st_ino, own.st_dev) != (there.st_ino, there.st_dev)


def _name_of(file: IO[bytes]) -> str:
    return xxhash.xxh3_128_hexdigest(_head_of(file))


def _head_of(file: IO[bytes]) -> bytes:
    at = file.tell()
    file.seek(0)
    head = file.read(_HEAD).partition(b"\n")[0]
    file.seek(at)
    return head

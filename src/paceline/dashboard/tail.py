"""The lines of an ``events.jsonl`` as they come, and behind the place where it moves on.

Waits: for the file system. One thread.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, final

import msgspec

from paceline.events import older

MOST_AT_ONCE = 4 << 20  # bytes: a page is told in between


@final
class Tail:
    """Reads a log from its beginning, as far as there are whole lines."""

    def __init__(self, path: Path) -> None:
        """Nothing is read; the file need not be there yet."""
        self._path = path
        self._file: IO[bytes] | None = None
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
            self._file.close()
            self._file = self._path.open("rb")
            read, self._rest = self._file.read(MOST_AT_ONCE), b""
        *lines, self._rest = (self._rest + read).split(b"\n")
        yield from lines

    def _open_first(self) -> bool:
        for path in (older(self._path), self._path):
            try:
                self._file = path.open("rb")
            except FileNotFoundError:
                continue
            return True
        return False

    def _has_moved(self) -> bool:
        """Whether another file lies where the one that is read was."""
        assert self._file is not None
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        own = os.fstat(self._file.fileno())
        return (own.st_ino, own.st_dev) != (there.st_ino, there.st_dev)

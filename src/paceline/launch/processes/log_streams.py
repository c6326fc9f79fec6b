"""Standard output and error of a process that writes into its log, whose disk may be full.

A ``print`` must not end a script because there is no space for its line: the line is lost,
and the log says how many were once there is space again.

Waits: for the disk. Any thread, as a stream of Python's is used.
"""

import io
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO, final

from paceline.errors import why_full

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@final
class LogFile(io.RawIOBase):
    """A descriptor that takes everything, and keeps what its disk does."""

    def __init__(self, descriptor: int, name: str) -> None:
        """Write to this descriptor, which stays open; ``name`` is as Python has it."""
        super().__init__()
        self.name = name
        self._descriptor = descriptor
        self._lost = 0  # bytes, since the last ones that were written

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write all of it, or lose what the disk does not take."""
        whole = memoryview(data).cast("B")
        rest = whole
        try:
            if self._lost and rest:
                said = f"(the disk was full: {self._lost:,} bytes are missing here)\n"
                os.write(self._descriptor, said.encode())
                self._lost = 0
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            if why_full(error) is None:
                raise
            self._lost += len(rest)
        return len(whole)


def open_log(path: bytes) -> None:
    """Let standard output and error go to this log; without one, to where they went."""
    try:
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        if why_full(error) is None:
            raise
    else:
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
    sys.stdout = _text(1, sys.stdout)
    sys.stderr = _text(2, sys.stderr)


def _text(descriptor: int, like: TextIO) -> io.TextIOWrapper:
    raw: Any = LogFile(descriptor, like.name)  # Any: as Python itself does it, unbuffered
    return io.TextIOWrapper(
        raw, encoding=like.encoding, errors=like.errors, write_through=True
    )

"""Standard output and error, whatever has become of them.

They may be closed, on a disk that is full, a pipe whose reader has gone, or a terminal that
was hung up. A job must not end because nobody hears how it goes, so writing never fails
here; what could not be written to standard output is told when the command ends.

Waits: for whoever reads them, as any program that prints.
"""

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO, cast, final

from rich.console import Console

WIDE = 200  # columns, where there is no terminal


def table_console() -> Console:
    """Where tables are printed: as wide as a terminal, and elsewhere as they need to be.

    A file, a pipe and a step of SLURM have no width, and names that are cut off are of no
    use there. ``COLUMNS`` says another one.
    """
    found = Console(emoji=False)
    if found.is_terminal or "COLUMNS" in os.environ:
        return found
    return Console(emoji=False, width=WIDE)


@final
class Sturdy(io.TextIOBase):
    """A text stream whose writes do not fail.

    Attributes:
        lost: why something could not be written; None while all was.
    """

    def __init__(self, stream: TextIO | None) -> None:
        """Write to ``stream``; None is one that was closed before the program began."""
        self._stream = stream
        self.lost: OSError | None = None
        if stream is None:
            self.lost = OSError(errno.EBADF, "it is closed")

    @property
    def encoding(self) -> str:  # type: ignore[override]  # writable there, never written
        """That of the stream."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write what can be written; what the encoding does not have is spelt out."""
        if not isinstance(text, str):  # click asks so whether a stream is one of text
            raise TypeError(f"expected text, got {type(text).__name__}")
        if self._stream is None:
            return len(text)
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            encoded = text.encode(self.encoding, "backslashreplace")
            return self.write(encoded.decode(self.encoding))
        except OSError as error:
            self.lost = error
        return len(text)

    def flush(self) -> None:
        """Have written what can be."""
        if self._stream is not None:
            try:
                self._stream.flush()
            except OSError as error:
                self.lost = error

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        """Its descriptor.

        Raises:
            OSError: it has none.
        """
        if self._stream is None:
            raise io.UnsupportedOperation("the stream is closed")
        return self._stream.fileno()

    def let_go(self) -> None:
        """Let the interpreter's last flush succeed, if this stream's does not."""
        self.flush()
        if self.lost is None:
            return
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), self.fileno())
            self.flush()


@contextlib.contextmanager
def sturdy_streams() -> Iterator[Sturdy]:
    """Let ``sys.stdout`` and ``sys.stderr`` be sturdy while the block runs.

    Yields:
        Standard output.
    """
    _fill_closed()
    before = sys.stdout, sys.stderr
    output, errors = Sturdy(before[0]), Sturdy(before[1])
    sys.stdout, sys.stderr = cast("TextIO", output), cast("TextIO", errors)
    try:
        yield output
    finally:
        sys.stdout, sys.stderr = before
        output.let_go()
        errors.let_go()


@contextlib.contextmanager
def unheeded() -> Iterator[None]:
    """What is printed while the block runs may be lost, and nobody is told."""
    yield
    if isinstance(sys.stdout, Sturdy):
        sys.stdout.flush()
        sys.stdout.lost = None


def _fill_closed() -> None:
    """Let no file that is opened later be taken for a standard stream."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one

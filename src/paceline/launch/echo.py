"""What roles write to their logs, said while the run goes on: ``--tee trainer-0``.

Waits: for the disk. `look` is for one thread, which may be another than the launcher's.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import final

from paceline.errors import UsageError
from paceline.launch.job import LOG_PIECE_BYTES, log_kind, log_sizes, read_log
from paceline.timing import Repeating

LOOK_EVERY_S = 0.2
STOP_S = 10.0
_KINDS = ("trainer", "server", "coordinator", "forkserver")


def require_roles(names: Sequence[str]) -> None:
    """Let all be roles such as ``trainer-0``, or kinds of them, ``trainer``.

    Raises:
        UsageError: one is none.
    """
    for name in names:
        if log_kind(name) not in _KINDS:
            raise UsageError(f"--tee: expected a role like trainer-0, got {name!r}")


@contextmanager
def echoed(logs: Path, names: Sequence[str], say: Callable[[str], None]) -> Iterator[None]:
    """Say what these roles write from now on, until the block ends, by a thread."""
    echo = LogEcho(logs, names, say)
    repeating = Repeating("echo", LOOK_EVERY_S, echo.look)
    repeating.start()
    try:
        yield
    finally:
        repeating.stop(STOP_S)
        echo.look()
        echo.end()


@final
class LogEcho:
    """The logs of some roles, as far as they have been said."""

    def __init__(
        self, logs: Path, names: Sequence[str], say: Callable[[str], None]
    ) -> None:
        """What lies in them already is not said."""
        self._logs, self._names, self._say = logs, names, say
        self._read = log_sizes(logs)  # {name: bytes}
        self._begun: dict[str, bytes] = {}  # {name: the beginning of its next line}

    def look(self) -> None:
        """Say the lines that have been written since."""
        for name, size in log_sizes(self._logs).items():
            if name not in self._names and log_kind(name) not in self._names:
                continue
            at = self._read.get(name, 0)
            while at < size and (text := self._piece(name, at)):
                at += len(text)
                self._told(name, text)
            self._read[name] = at

    def end(self) -> None:
        """Say what had no end of its line."""
        for name, text in self._begun.items():
            self._line(name, text)
        self._begun = {}

    def _piece(self, name: str, at: int) -> bytes:
        with suppress(OSError):  # it was removed a moment ago
            return read_log(self._logs, name, at)
        return b""

    def _told(self, name: str, text: bytes) -> None:
        *whole, rest = (self._begun.pop(name, b"") + text).split(b"\n")
        for line in whole:
            self._line(name, line)
        if len(rest) > LOG_PIECE_BYTES:  # nobody reads such a line; it is not kept
            self._line(name, rest)
        elif rest:
            self._begun[name] = rest

    def _line(self, name: str, line: bytes) -> None:
        self._say(f"{name} | {line.decode(errors='replace')}")

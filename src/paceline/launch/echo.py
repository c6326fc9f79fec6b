"""What roles write to their logs, said while the run goes on: ``--tee trainer-0``.

And what paceline warns the script of, in the trainers' logs: that is said of every run.

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
WARNINGS_EVERY_S = 1.0
STOP_S = 10.0
MOST_WARNINGS = 20  # of a run; the logs have all
_WARNING = "StepWarning: "
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
    with _looked_at(LogEcho(logs, names, say), LOOK_EVERY_S):
        yield


@contextmanager
def warned(logs: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Say once what trainers are warned of from now on, until the block ends."""
    with _looked_at(LogEcho(logs, ["trainer"], Warned(say).line), WARNINGS_EVERY_S):
        yield


@contextmanager
def _looked_at(echo: "LogEcho", every_s: float) -> Iterator[None]:
    repeating = Repeating("echo", every_s, echo.look)
    repeating.start()
    try:
        yield
    finally:
        repeating.stop(STOP_S)
        echo.look()
        echo.end()


@final
class Warned:
    """Picks the warnings of paceline from lines of logs, each text once.

    A step that is dropped is no news: all have gone back to a checkpoint, which is said.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told: set[str] = set()

    def line(self, line: str) -> None:
        """Take a line as `LogEcho` says it, behind the name of its role."""
        _, is_warning, text = line.partition(_WARNING)
        if not is_warning or text.startswith("step dropped"):
            return
        if text not in self._told and len(self._told) < MOST_WARNINGS:
            self._told.add(text)
            self._say(f"{line.partition(' | ')[0]} is warned: {text}")


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

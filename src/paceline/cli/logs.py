"""``paceline logs [DIR] [ROLE]``: what a job's processes have written, on all machines.

Waits: with ``-f`` for the job to end, or for Ctrl-C.
"""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Protocol, final

import typer

from paceline.cli.options import JoinOption, PlainOption, job_said
from paceline.cli.streams import Sturdy
from paceline.errors import UsageError
from paceline.launch.job import (
    LOG_PIECE_BYTES,
    DoorLogs,
    JobDir,
    find_job,
    is_running,
    log_kind,
    log_sizes,
    read_log,
)
from paceline.timing import SystemClock

LOOK_EVERY_S = 0.25

_KINDS = {"coordinator", "server", "trainer", "forkserver", "host"}
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


def logs(
    job_dir: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB_DIR|ROLE",
            help="The job folder; default: that which runs, or ran last.",
        ),
    ] = None,
    role: Annotated[
        str | None,
        typer.Argument(metavar="ROLE", help="trainer-0, or trainer: all of them."),
    ] = None,
    *,
    join: JoinOption = None,
    plain: PlainOption = False,
    lines: Annotated[
        int, typer.Option(help="How many lines, from the end.", show_default="20")
    ] = 20,
    follow: Annotated[
        bool, typer.Option("-f", help="Go on with what is written, until the job is over.")
    ] = False,
) -> None:
    """Print the ends of a job's logs: those of its processes on all machines."""
    if role is None and job_dir is not None and log_kind(job_dir) in _KINDS:
        job_dir, role = None, job_dir
    if role is not None and log_kind(role) not in _KINDS:
        raise UsageError(f"expected a role such as trainer-0 or trainer, got {role!r}")
    if lines < 0:
        raise UsageError(f"--lines: expected at least 0, got {lines}")
    folder = Path(job_dir) if job_dir is not None else None
    job = job_said(folder, join, find_job, is_plain=plain)
    source: _Source
    source = _FolderLogs(job) if isinstance(job, JobDir) else DoorLogs(job, SystemClock())
    # Ctrl-C is how following ends, and nothing has gone wrong then.
    ends = (KeyboardInterrupt,) if follow else ()
    with closing(source), suppress(*ends):
        reading = _Reading(source, role)
        reading.show_ends(lines)
        if follow:
            reading.wait_over()
        elif not reading.names:
            what = "there is no log" if role is None else f"there is no log of {role}"
            others = ", ".join(source.sizes())
            raise UsageError(f"{what}" + (f"; there are {others}" if others else " yet"))
        reading.end()


class _Source(Protocol):
    """Where logs are read."""

    def sizes(self) -> dict[str, int]: ...

    def is_over(self) -> bool: ...

    def read(self, name: str, offset: int) -> bytes: ...

    def close(self) -> None: ...


@final
class _FolderLogs:
    """The logs of a job folder."""

    def __init__(self, job: JobDir) -> None:
        if not job.path.is_dir():
            raise UsageError(f"there is no job folder {job.path}")
        self._job = job

    def sizes(self) -> dict[str, int]:
        return log_sizes(self._job.logs)

    def is_over(self) -> bool:
        return not is_running(self._job)

    def read(self, name: str, offset: int) -> bytes:
        with suppress(OSError):  # it was removed a moment ago
            return read_log(self._job.logs, name, offset)
        return b""

    def close(self) -> None:
        """Nothing is open."""


@final
class _Reading:
    """What has been read of the logs that are wanted, and printed."""

    def __init__(self, source: _Source, role: str | None) -> None:
        self._source, self._role = source, role
        self._has_names = role is None or role in _KINDS - {"coordinator", "forkserver"}
        self._read: dict[str, int] = {}  # {name: bytes}
        self._begun: dict[str, bytes] = {}  # {name: the beginning of its next line}

    @property
    def names(self) -> list[str]:
        """The logs that were found."""
        return list(self._read)

    def show_ends(self, lines: int) -> None:
        """Print the last lines of each."""
        for name, size in self._wanted():
            self._read[name] = size
        for name, size in self._read.items():
            self._print(name, b"".join(self._last(name, size, lines)))

    def wait_over(self) -> None:
        """Print what is written, until the job is over or nobody reads it."""
        is_over = False
        while not is_over and not _is_unread():
            is_over = self._source.is_over()  # before the last look
            for name, size in self._wanted():
                self._go_on(name, size)
            sys.stdout.flush()
            if not is_over:
                time.sleep(LOOK_EVERY_S)

    def end(self) -> None:
        """Print what had no end of its line."""
        for name, text in self._begun.items():
            self._print_line(name, text)
        self._begun = {}

    def _wanted(self) -> Iterator[tuple[str, int]]:
        for name, size in self._source.sizes().items():
            if self._role is None or self._role in {name, log_kind(name)}:
                yield name, size

    def _last(self, name: str, size: int, lines: int) -> list[bytes]:
        text, start = b"", size
        while start > 0 and text.count(b"\n") <= lines:
            before = max(0, start - LOG_PIECE_BYTES)
            text = self._source.read(name, before)[: start - before] + text
            start = before
        return _LINE.findall(text)[-lines:] if lines else []

    def _go_on(self, name: str, size: int) -> None:
        at = self._read.get(name, 0)
        while at < size and (text := self._source.read(name, at)):
            at += len(text)
            self._print(name, text)
        self._read[name] = at

    def _print(self, name: str, text: bytes) -> None:
        *whole, rest = (self._begun.pop(name, b"") + text).split(b"\n")
        for line in whole:
            self._print_line(name, line)
        if rest:
            self._begun[name] = rest

    def _print_line(self, name: str, line: bytes) -> None:
        width = max(map(len, self._read), default=0)
        prefix = f"{name:<{width}} | " if self._has_names else ""
        print(f"{prefix}{line.decode(errors='replace')}")


def _is_unread() -> bool:
    return isinstance(sys.stdout, Sturdy) and sys.stdout.lost is not None

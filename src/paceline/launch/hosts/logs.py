"""The logs of hosts: how they come out of one folder, and into that of the launcher.

A log of a role is one file with the launcher, wherever the role runs: a line of its own
says where it goes on on another machine. What the launcher's disk does not take stays with
the host, and is told again.

Waits: for the disk.
"""

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import final

from paceline.launch.hosts.log_pieces import TakenLogs, ToldLogs, may_tell, told_name
from paceline.launch.hosts.roster import Host
from paceline.launch.job import JobDir, log_sizes, read_log
from paceline.machine import AS_BYTES, NO_LINK
from paceline.messages.hosts import AskLog, LogPiece
from paceline.messages.shared import Refusal

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | NO_LINK | AS_BYTES


@final
class HostLogs:
    """The logs in a host's folder, as the launcher is told of them."""

    def __init__(self, logs: Path, host: str) -> None:
        """Nothing was told yet; ``logs`` is the folder."""
        self._logs, self._host = logs, host
        self._telling = ToldLogs()

    def news(self) -> tuple[tuple[LogPiece, ...], bool]:
        """What the launcher lacks, as much as one report takes; and does it lack more?"""
        own: dict[str, str] = {}  # {as it is told: as it is here}
        sizes = {}
        for name, size in log_sizes(self._logs).items():
            if told := told_name(self._host, name):
                own[told], sizes[told] = name, size
        planned, has_more = self._telling.plan(sizes)
        pieces = []
        for name, offset, size in planned:
            with suppress(OSError):  # a user may remove it
                text = read_log(self._logs, own[name], offset, size)
                pieces.append(LogPiece(name=name, offset=offset, text=text))
        return tuple(pieces), has_more

    def answered(self, had: dict[str, int]) -> bool:
        """The launcher has told how far it has logs: is it further than before?"""
        return self._telling.answered(had)


@final
class KeptLogs:
    """The launcher's logs: those of its own machine, and what hosts tell of theirs."""

    def __init__(self, job: JobDir) -> None:
        """No host has told anything."""
        self._job = job
        self._lock = threading.Lock()  # guards the next, and the order of what is written
        self._taking = TakenLogs()

    def take(self, host: Host, pieces: Sequence[LogPiece]) -> dict[str, int]:
        """Append what is new; how far each of these logs is here, {name: bytes}."""
        with self._lock:
            known = [piece for piece in pieces if may_tell(host.id, piece.name)]
            for piece in known:
                if news := self._taking.news(host.id, piece):
                    self._append(host, piece.name, news)
            return {piece.name: self._taking.had(host.id, piece.name) for piece in known}

    def begin(self, own: Host, role: str) -> None:
        """A role begins on the launcher's own machine, which writes its log."""
        with self._lock:
            if not self._taking.is_elsewhere(own.id, role):
                return
            if log_sizes(self._job.logs).get(role):
                self._append(own, role, b"")
            self._taking.goes_on(own.id, role)

    def sizes(self) -> dict[str, int]:
        """All logs, {name: bytes}."""
        return log_sizes(self._job.logs)

    def piece(self, asked: AskLog) -> LogPiece | Refusal:
        """What is asked for."""
        try:
            text = read_log(self._job.logs, asked.name, asked.offset)
        except OSError as error:
            return Refusal(kind="invalid", text=f"no log {asked.name!r}: {error.strerror}")
        return LogPiece(name=asked.name, offset=asked.offset, text=text)

    def _append(self, host: Host, name: str, text: bytes) -> None:
        """Write what the disk takes; the rest will be told again."""
        with suppress(OSError):
            file = os.open(self._job.log(name), _APPEND, 0o666)
            try:
                head = b""
                if self._taking.is_elsewhere(host.id, name):
                    head = _head(host, file)
                written = os.write(file, head + text) - len(head)
                if written >= 0:
                    self._taking.goes_on(host.id, name)
                    self._taking.took(host.id, name, written)
            finally:
                os.close(file)


def _head(host: Host, file: int) -> bytes:
    """The line that says where a log goes on, at the beginning of a line."""
    size = os.fstat(file).st_size
    is_begun = size > 0 and os.pread(file, 1, size - 1) != b"\n"
    name = "".join(letter if letter.isprintable() else "?" for letter in host.name)
    start = "\n" if is_begun else ""
    return f"{start}-- on {host.id} ({name}) --\n".encode()

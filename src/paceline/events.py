"""One structured line per happening: ``events.jsonl`` of a job.

Every line is a JSON object with ``t`` (seconds since 1970, for display only), ``event``
(what happened, in the past tense or as a noun) and the happening's own fields. The
coordinator writes it; drawings, dashboards and the history checker read it.

============  =====================================================================
event         fields
============  =====================================================================
progress      records, steps, epoch, timeline, trainers ``{id: records}``, trained_s
              (seconds that loops have trained); about one line a second while
              anything moves
log           trainer, records, numbers ``{name: value}``: a `Session.log` call
computed      trainer, batches, seconds, mean_s: how long so many batches took to read
              and compute, as quantiles, and the mean of all; every
              `trainer.heartbeat.TELL_EVERY_S`
EventsMoved   to, began, number: the lines before this one, the first of all at ``began``,
              have become the file ``to``; what lay there is gone. It is the
              ``number``-th time
EventsLost    number: so many happenings before this line could not be written
anything else an outcome of the coordinator by its name, with its fields and a reason
============  =====================================================================

A file that has reached `MOST_BYTES` becomes ``events.old.jsonl`` and a new one begins, so
that a job of months fills no disk; `event_lines` reads both.
"""

import contextlib
import itertools
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import final

import msgspec

from paceline.machine import AS_BYTES
from paceline.timing import wall_time_s

MOST_BYTES = 256 << 20  # of one file; there are at most two

_log = logging.getLogger("paceline.events")
_encoder = msgspec.json.Encoder()


def older(path: Path) -> Path:
    """Where the lines lie that came before those of an event log, if it has been full."""
    return path.with_suffix(".old" + path.suffix)


def event_lines(path: Path) -> Iterator[bytes]:
    """All lines of an event log that are kept, the oldest first.

    Raises:
        OSError: there is no such log.
    """
    with path.open("rb") as lines:
        try:
            before = older(path).open("rb")
        except FileNotFoundError:
            yield from lines
            return
        with before:
            yield from itertools.chain(before, lines)


@final
class EventLog:
    """Appends happenings to a file; without a path it only remembers nothing.

    May be called from any thread. A failing disk never stops the job: what cannot be
    written is counted, and said once there is space again. No line is ever half there.
    """

    def __init__(self, path: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        """Append to ``path``, which is made if need be."""
        self.num_lost = 0  # happenings that could not be written
        self._path = path
        self._most_bytes = most_bytes
        # Guards all below: lines must not interleave.
        self._lock = threading.Lock()
        self._file: int | None = None  # its descriptor
        self._num_bytes = 0
        self._began_t: float | None = None
        self._num_moves = 0
        self._untold = 0  # lost since the last line that was written
        self._is_closed = False
        if path is not None:
            with contextlib.suppress(OSError):  # a full disk: it is tried again
                self._began_t, self._num_moves = _beginning(path)
                self._open(path)

    def write(self, event: str, fields: dict[str, object]) -> None:
        """Add one line."""
        self.write_all([(event, fields)])

    def write_all(self, happenings: Iterable[tuple[str, dict[str, object]]]) -> None:
        """Add a line for each (event, fields), in one write."""
        if self._path is None:
            return
        t = round(wall_time_s(), 4)
        new = [{"t": t, "event": event, **fields} for event, fields in happenings]
        lines = _encoder.encode_lines(new)
        with self._lock:
            if self._is_closed:
                return
            if self._began_t is None:
                self._began_t = t
            if self._untold:
                lost = {"t": t, "event": "EventsLost", "number": self._untold}
                lines = _encoder.encode_lines([lost]) + lines
            try:
                self._append(t, lines)
            except OSError as error:
                if not self._untold:
                    _log.warning("events cannot be written just now: %s", error)
                self.num_lost += len(new)
                self._untold += len(new)
            else:
                self._untold = 0

    def close(self) -> None:
        """Write nothing more."""
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _open(self, path: Path) -> None:
        """Append to this file, which is made if need be."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | AS_BYTES
        self._file = os.open(path, flags, 0o666)
        self._num_bytes = os.fstat(self._file).st_size

    def _append(self, t: float, lines: bytes) -> None:
        """Write all of it or nothing, under the lock."""
        assert self._path is not None
        if self._file is None:
            self._open(self._path)
        if self._num_bytes and self._num_bytes + len(lines) > self._most_bytes:
            self._move_on(t)
        assert self._file is not None
        try:
            rest = memoryview(lines)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            with contextlib.suppress(OSError):  # which needs no space
                os.ftruncate(self._file, self._num_bytes)
            raise
        self._num_bytes += len(lines)

    def _move_on(self, t: float) -> None:
        """Begin a new file, under the lock."""
        assert self._path is not None
        assert self._file is not None
        old = older(self._path)
        os.close(self._file)  # first: what is open keeps its name on Windows
        self._file, self._num_bytes = None, 0
        os.replace(self._path, old)
        self._open(self._path)
        self._num_moves += 1
        moved = {"t": t, "event": "EventsMoved", "to": old.name, "began": self._began_t}
        self._append(t, _encoder.encode_lines([{**moved, "number": self._num_moves}]))


def num_moves(first_line: bytes) -> int:
    """How often a log had moved on before the file with this first line; 0: or unknown."""
    with contextlib.suppress(msgspec.DecodeError):
        line = msgspec.json.decode(first_line, type=dict[str, object])
        number = line.get("number") if line.get("event") == "EventsMoved" else 0
        return number if isinstance(number, int) else 0
    return 0


def _beginning(path: Path) -> tuple[float | None, int]:
    """When the log of a job that is gone on with was begun, and how often it has moved on.

    None if it is new.
    """
    try:
        with path.open("rb") as lines:
            first = lines.readline()
        line = msgspec.json.decode(first, type=dict[str, object])
    except (FileNotFoundError, msgspec.DecodeError):
        return None, 0
    began = line.get("began", line.get("t"))
    return began if isinstance(began, float) else None, num_moves(first)

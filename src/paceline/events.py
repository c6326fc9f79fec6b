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
EventsMoved   to, began: the lines before this one, the first of all at ``began``, have
              become the file ``to``; what lay there is gone
anything else an outcome of the coordinator by its name, with its fields and a reason
============  =====================================================================

A file that has reached `MOST_BYTES` becomes ``events.old.jsonl`` and a new one begins, so
that a job of months fills no disk; `event_lines` reads both.
"""

import itertools
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import final

import msgspec

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

    May be called from any thread. A failing disk never stops the job: the line is lost
    and the failure logged once.
    """

    def __init__(self, path: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        """Append to ``path``, which is made if need be."""
        self._path = path
        self._most_bytes = most_bytes
        # Guards all below: lines must not interleave.
        self._lock = threading.Lock()
        self._file = path.open("ab") if path is not None else None
        self._num_bytes = self._file.tell() if self._file is not None else 0
        self._began_t = _first_t(path) if path is not None else None
        self._has_failed = False

    def write(self, event: str, fields: dict[str, object]) -> None:
        """Add one line."""
        self.write_all([(event, fields)])

    def write_all(self, happenings: Iterable[tuple[str, dict[str, object]]]) -> None:
        """Add a line for each (event, fields), in one write."""
        if self._file is None:
            return
        t = round(wall_time_s(), 4)
        lines = b"".join(_line(t, event, fields) for event, fields in happenings)
        with self._lock:
            if self._file.closed:
                return
            if self._began_t is None:
                self._began_t = t
            try:
                if self._num_bytes + len(lines) > self._most_bytes:
                    self._move_on(t)
                self._file.write(lines)
                self._file.flush()
                self._num_bytes += len(lines)
            except OSError as error:
                if not self._has_failed:
                    _log.warning("events are no longer written: %s", error)
                self._has_failed = True

    def close(self) -> None:
        """Write nothing more."""
        if self._file is not None:
            with self._lock:
                self._file.close()

    def _move_on(self, t: float) -> None:
        """Begin a new file, under the lock."""
        assert self._path is not None
        assert self._file is not None
        old = older(self._path)
        os.replace(self._path, old)
        file = self._path.open("ab")
        self._file.close()
        self._file = file
        moved: dict[str, object] = {"to": old.name, "began": self._began_t}
        self._num_bytes = self._file.write(_line(t, "EventsMoved", moved))


def _line(t: float, event: str, fields: dict[str, object]) -> bytes:
    return _encoder.encode({"t": t, "event": event, **fields}) + b"\n"


def _first_t(path: Path) -> float | None:
    """When the log of a job that is gone on with was begun; None if it is new."""
    with path.open("rb") as lines:
        first = lines.readline()
    try:
        line = msgspec.json.decode(first, type=dict[str, object])
    except msgspec.DecodeError:
        return None
    began = line.get("began", line.get("t"))
    return began if isinstance(began, float) else None

"""One structured line per happening: ``events.jsonl`` of a job.

Every line is a JSON object with ``t`` (seconds since 1970, for display only), ``event``
(what happened, in the past tense or as a noun) and the happening's own fields. The
coordinator writes it; drawings, dashboards and the history checker read it.

============  =====================================================================
event         fields
============  =====================================================================
progress      records, steps, epoch, timeline, trainers ``{id: records}``; about one
              line a second while anything moves
log           trainer, records, numbers ``{name: value}``: a `Session.log` call
anything else an outcome of the coordinator by its name, with its fields and a reason
============  =====================================================================
"""

import logging
import threading
from pathlib import Path
from typing import final

import msgspec

from paceline.timing import wall_time_s

_log = logging.getLogger("paceline.events")


@final
class EventLog:
    """Appends happenings to a file; without a path it only remembers nothing.

    May be called from any thread. A failing disk never stops the job: the line is lost
    and the failure logged once.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Append to ``path``, which is made if need be."""
        self._file = path.open("ab") if path is not None else None
        self._lock = threading.Lock()  # guards _file: lines must not interleave
        self._has_failed = False

    def write(self, event: str, fields: dict[str, object]) -> None:
        """Add one line."""
        if self._file is None:
            return
        line = msgspec.json.encode({"t": round(wall_time_s(), 4), "event": event, **fields})
        with self._lock:
            if self._file.closed:
                return
            try:
                self._file.write(line + b"\n")
                self._file.flush()
            except OSError as error:
                if not self._has_failed:
                    _log.warning("events are no longer written: %s", error)
                self._has_failed = True

    def close(self) -> None:
        """Write nothing more."""
        if self._file is not None:
            with self._lock:
                self._file.close()

"""What must survive, on its way to the journal's disk, which may be full.

Waits: for the disk. The one at work calls.
"""

import logging
from collections.abc import Sequence
from typing import final

import msgspec

from paceline.coordinator.durable import Durable
from paceline.coordinator.durable.outcomes import Outcome
from paceline.coordinator.full_disk import DiskWait
from paceline.coordinator.storage import StateSaved
from paceline.errors import JournalCorrupt, StoreError
from paceline.events import EventLog
from paceline.store.journal import Journal
from paceline.timing import Clock

MOST_RECORDS = 50_000  # in the journal; they are replayed in a fraction of a second

_log = logging.getLogger("paceline.coordinator")
_encoder = msgspec.msgpack.Encoder()


@final
class Keeper:
    """Writes outcomes to the journal, and keeps the journal short.

    Attributes:
        holding: since when it cannot be written.
    """

    def __init__(self, journal: Journal, clock: Clock, events: EventLog) -> None:
        self.holding = DiskWait()
        self._journal, self._clock, self._events = journal, clock, events
        self._compact_above = MOST_RECORDS

    def moment_s(self) -> float:
        """What time it is for decisions; there are none while it cannot be written."""
        return self._clock.now_s() - self.holding.stood_s

    def keep(self, outcomes: Sequence[Outcome]) -> bool:
        """Journal outcomes; false if the disk refuses: then none of them is kept.

        Raises:
            JournalCorrupt: it is no journal any more.
        """
        try:
            self._journal.append([_encoder.encode(outcome) for outcome in outcomes])
        except JournalCorrupt:
            raise
        except StoreError as error:
            if self.holding.failed(error, self._clock.now_s()):
                _log.warning("the job waits: %s", error)
            return False
        if self.holding.error is not None:
            reason, seconds = (
                str(self.holding.error),
                self.holding.wrote(self._clock.now_s()),
            )
            _log.warning("the journal is written again, after %.0f s", seconds)
            fields: dict[str, object] = {"seconds": round(seconds, 3), "reason": reason}
            self._events.write("DiskAwaited", fields)
        return True

    def is_long(self) -> bool:
        """Whether the journal has become so long that it is to be compacted."""
        return self._journal.num_records > self._compact_above

    def compact(self, durable: Durable) -> None:
        """Let the journal hold this state alone; on a full disk it goes on longer."""
        self._compact_above = MOST_RECORDS
        try:
            self._journal.compact(_encoder.encode(StateSaved(durable)))
        except StoreError as error:
            _log.warning("the journal could not be compacted; it goes on longer: %s", error)
            self._compact_above += self._journal.num_records

"""What must survive, on its way to the journal and to storage, and back when it starts.

What a start finds in both; outcomes that are journalled, on a disk that may be full; what
makes a cut true, as it is written, and what may go when it is.

Waits: for the disk and for storage; a whole cut is read. Any thread, but a `Keeper` is for
the one at work.
"""

import logging
from collections.abc import Callable, Sequence
from typing import final

import msgspec

from paceline.config import JobConfig
from paceline.coordinator.decisions import Stored
from paceline.coordinator.durable import Durable, restore, told
from paceline.coordinator.durable.outcomes import (
    AnyOutcome,
    CutCommitted,
    LeaseGranted,
    Outcome,
    RoundCommitted,
    TaskDone,
)
from paceline.coordinator.full_disk import DiskWait
from paceline.coordinator.ledgers import ManifestOrder
from paceline.coordinator.state import (
    CoordinatorState,
    CutSought,
    ManifestWritten,
)
from paceline.coordinator.stored_values import StoredValues
from paceline.errors import CheckpointCorrupt, JournalCorrupt, StoreError
from paceline.events import EventLog
from paceline.failpoints import failpoint
from paceline.messages.shared import PartPlan
from paceline.pace.policy import outer_parts
from paceline.store.blobs import BlobStore, digest
from paceline.store.cuts import (
    Cut,
    Manifest,
    cut_folder,
    cut_folders,
    drop_cut,
    foreign_cuts,
    newest_good_cut,
    owner_of,
    sweep,
    sweep_constants,
    taken_over,
    write_manifest,
)
from paceline.store.journal import Journal
from paceline.timing import Clock, Deadline

SEEK_S = 600.0  # while servers wait to return somewhere: as long as storage may be away
SEEK_AGAIN_S = 2.0

_log = logging.getLogger("paceline.coordinator")


class StateSaved(msgspec.Struct, frozen=True, tag=True):
    """First record of a compacted journal: the whole state as of a committed cut."""

    durable: Durable


_record_decoder: msgspec.msgpack.Decoder[AnyOutcome | StateSaved] = msgspec.msgpack.Decoder(
    AnyOutcome | StateSaved
)


def read_journal(journal: Journal) -> Durable:
    """The state that a journal's records add up to.

    Raises:
        JournalCorrupt: a record does not match its check.
    """
    durable = Durable()
    for body in journal.read():
        record = _record_decoder.decode(body)
        if isinstance(record, StateSaved):
            durable = record.durable
        else:
            restore(record, durable)
    return durable


def wait_older(
    store: BlobStore,
    config: JobConfig,
    bad: Cut,
    clock: Clock,
    wait: Callable[[float], bool],
) -> CutSought:
    """Find the newest cut older than ``bad`` that verifies; whole cuts are read.

    Storage that fails is asked again for `SEEK_S`, unless ``wait``, which waits so many
    seconds, says to give up.
    """
    deadline = Deadline(clock, SEEK_S)
    while True:
        try:
            return CutSought(bad.folder, read_stored(store, config, older_than=bad))
        except CheckpointCorrupt as error:
            return CutSought(bad.folder, Stored(), str(error))
        except StoreError as error:
            _log.warning("no older cut than %s is found yet: %s", bad.folder, error)
            if wait(SEEK_AGAIN_S) or deadline.is_over():
                return CutSought(bad.folder, Stored(), str(error))


def read_stored(
    store: BlobStore, config: JobConfig, older_than: Cut | None = None
) -> Stored:
    """The job's newest cut that verifies; cuts of other jobs are told in the log, once.

    Raises:
        CheckpointCorrupt: there are cuts and none is whole.
        StoreError: a cut is of an unknown format, or the storage fails.
    """
    timeline = max((cut.timeline for cut in cut_folders(store)), default=0)
    spared = foreign_cuts(store, owner_of(config))
    foreign = tuple(why for _, why in spared)
    for why in foreign if older_than is None else ():
        _log.warning("passed over: %s; it is neither loaded nor removed", why)
    folders = {cut.folder for cut, _ in spared}
    manifest, skipped = newest_good_cut(store, older_than, folders)
    if manifest is None:
        return Stored(timeline=timeline, foreign=foreign)
    cut = CutCommitted(
        manifest.cut,
        manifest.timeline,
        cut_folder(manifest.cut, manifest.timeline),
        manifest.queue,
        manifest.rounds,
        manifest.files,
        tuple(plan.spec.part for plan in manifest.plans),
        ends_stage=False,
        steps=manifest.steps,
        outer=outer_parts(manifest.plans),
    )
    return Stored(
        cut,
        manifest.plans,
        timeline,
        skipped,
        foreign,
        manifest.records,
        manifest.created,
    )


def manifest_of(order: ManifestOrder, config: JobConfig, created: float) -> Manifest:
    """What makes a cut true, of a run, at a time of the wall's clock."""
    cut = order.cut
    return Manifest(
        run=config.run,
        job=config.job,
        cut=cut.cut,
        timeline=cut.timeline,
        files=cut.files,
        plans=order.plans,
        rounds=cut.rounds,
        queue=cut.queue,
        queue_xxh3=digest(cut.queue),
        created=created,
        records=order.records,
        steps=cut.steps,
    )


def wait_committed(
    store: BlobStore, order: ManifestOrder, config: JobConfig, created: float
) -> ManifestWritten:
    """The manifest is written, or the event says why not.

    Nothing is committed once another run has claimed the place.
    """
    error = newer = None
    folder = order.cut.folder
    try:
        failpoint("coordinator.before_manifest")
        newer = taken_over(store, config.run)
        if newer is None:
            write_manifest(store, manifest_of(order, config, created))
    except Exception as failure:  # noqa: BLE001  (a cut that never ends ends the job)
        is_told = isinstance(failure, StoreError)  # its text says all
        told = None if is_told else failure
        _log.error("%s could not be committed: %s", folder, failure, exc_info=told)
        error = str(failure) if is_told else f"{type(failure).__name__}: {failure}"
    failpoint("coordinator.after_manifest")
    if newer is None:
        return ManifestWritten(folder, error)
    error = (
        f"{store.url} belongs to {newer} since, and this run takes no more checkpoints "
        f"there: see to it that a job runs from one folder only"
    )
    return ManifestWritten(folder, error, is_taken_over=True)


def wait_dropped(store: BlobStore, folder: str, run: str) -> None:
    """Remove what was written of a cut that was given up, if the place is the run's."""
    try:
        if taken_over(store, run) is None:
            drop_cut(store, folder)
    except StoreError as error:
        _log.error("%s is left for a later sweep: %s", folder, error)


def wait_swept(
    store: BlobStore, state: CoordinatorState, config: JobConfig, values: StoredValues
) -> None:
    """Remove what the last journalled cut replaces, and what no cut names any more.

    Beside cuts of another job nothing is removed but cuts: what that job names is not
    known. In a place that another run has claimed nothing is removed at all.
    """
    cut = state.durable.cut
    assert cut is not None

    def planned() -> list[PartPlan]:
        return [record.plan for record in list(state.durable.parts.values())]

    try:
        if taken_over(store, config.run) is not None:
            return
        spared = {foreign.cut.folder for foreign in foreign_cuts(store, owner_of(config))}
        sweep(store, config.keep_cuts, cut.folder, spared)
        if not spared:
            sweep_constants(store, planned)
            values.sweep()
    except StoreError as error:
        _log.error("old cuts could not be removed: %s", error)


MOST_GATHERED = 256
MOST_RECORDS = 50_000  # in the journal; they are replayed in a fraction of a second

_OF_STEPS = frozenset({RoundCommitted, LeaseGranted, TaskDone})
_encoder = msgspec.msgpack.Encoder()


@final
class Keeper:
    """Writes outcomes to the journal, and keeps the journal short."""

    def __init__(
        self, journal: Journal, clock: Clock, events: EventLog, gather_s: float = 0.0
    ) -> None:
        """Write at once, or what steps have done within ``gather_s``.

        That is for servers that end whenever the coordinator does: then all steps behind
        the last cut are undone, whether they are journalled or not.
        """
        self.holding = DiskWait()  # since when it cannot be written
        self.is_long = False  # the journal is to be compacted; known when it is written
        self._journal, self._clock, self._events = journal, clock, events
        self._gather_s, self._gathered_s = gather_s, 0.0
        self._gathered: list[Outcome] = []  # since then; what others build upon is not here
        self._compact_above = MOST_RECORDS

    def moment_s(self) -> float:
        """What time it is for decisions; there are none while it cannot be written."""
        return self._clock.now_s() - self.holding.stood_s

    def keep(self, outcomes: Sequence[Outcome], *, is_last: bool = False) -> bool:
        """Journal outcomes; false if the disk refuses: then none of them is kept.

        ``is_last``: whatever was gathered is journalled now.

        Raises:
            JournalCorrupt: it is no journal any more.
        """
        if self._gather_s and not is_last and self._may_lie(outcomes):
            self._gathered += outcomes
            return True
        told_now = [*self._gathered, *outcomes]
        if not told_now:
            return True
        failpoint("coordinator.before_journal")
        if not self._append(told_now):
            return False
        failpoint("coordinator.before_reply")
        self._gathered = []
        self.is_long = self._journal.num_records > self._compact_above
        self._events.write_all(map(told, told_now))
        return True

    def _may_lie(self, outcomes: Sequence[Outcome]) -> bool:
        """Whether these may wait with what is gathered."""
        now = self._clock.now_s()
        if not self._gathered:
            self._gathered_s = now
        is_full = len(self._gathered) + len(outcomes) >= MOST_GATHERED
        is_due = now - self._gathered_s >= self._gather_s or self.holding.error is not None
        return not (is_full or is_due) and _OF_STEPS.issuperset(map(type, outcomes))

    def _append(self, outcomes: Sequence[Outcome]) -> bool:
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

    def compact(self, durable: Durable) -> None:
        """Let the journal hold this state alone; on a full disk it goes on longer."""
        self._compact_above, self.is_long = MOST_RECORDS, False
        try:
            self._journal.compact(_encoder.encode(StateSaved(durable)))
        except StoreError as error:
            _log.warning("the journal could not be compacted; it goes on longer: %s", error)
            self._compact_above += self._journal.num_records

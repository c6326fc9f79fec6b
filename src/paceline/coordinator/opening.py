"""What a coordinator finds when it starts: the journal, and the cuts in storage.

Waits: for the disk and for storage; a whole cut is read. Any thread.
"""

import logging
from collections.abc import Callable

import msgspec

from paceline.config import JobConfig
from paceline.coordinator.durable import Durable
from paceline.coordinator.outcomes import AnyOutcome, CutCommitted
from paceline.coordinator.runs import Stored
from paceline.coordinator.state import CutSought, restored
from paceline.errors import CheckpointCorrupt, StoreError
from paceline.pace.policy import outer_parts
from paceline.store.blobs import BlobStore
from paceline.store.journal import Journal
from paceline.store.manifest import Cut, cut_folder, cut_folders, newest_good_cut
from paceline.store.ownership import foreign_cuts, owner_of
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
            durable = restored([record], durable)
    return durable


def wait_older(
    store: BlobStore,
    config: JobConfig,
    bad: Cut,
    clock: Clock,
    wait: Callable[[float], bool],
) -> CutSought:
    """Find the newest cut older than ``bad`` that verifies; whole cuts are read.

    Storage that fails is asked again for `SEEK_S`.

    Args:
        store: where cuts lie.
        config: the job; cuts of another one are passed over.
        bad: a cut that cannot be read.
        clock: the time.
        wait: waits so many seconds; true: give up.
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

    Args:
        store: where cuts lie.
        config: the job.
        older_than: look only at cuts that are older than this one.

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

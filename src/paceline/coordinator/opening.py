"""What a coordinator finds when it starts: the journal, and the cuts in storage.

Waits: for the disk and for storage; a whole cut is read. Any thread.
"""

import msgspec

from paceline.coordinator.durable import Durable
from paceline.coordinator.outcomes import AnyOutcome, CutCommitted
from paceline.coordinator.runs import Stored
from paceline.coordinator.state import restored
from paceline.store.blobs import BlobStore
from paceline.store.journal import Journal
from paceline.store.manifest import cut_folder, list_cuts, newest_good_cut


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


def read_stored(store: BlobStore) -> Stored:
    """The newest cut that verifies.

    Raises:
        CheckpointCorrupt: there are cuts and none is whole.
        StoreError: a cut is of an unknown format, or the storage fails.
    """
    timeline = max((cut.timeline for cut in list_cuts(store)), default=0)
    manifest, skipped = newest_good_cut(store)
    if manifest is None:
        return Stored(timeline=timeline)
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
    )
    return Stored(cut, manifest.plans, timeline, skipped)

"""What makes a cut true, as it is written; and what goes when it is.

Waits: `sweep_cuts` for storage. Any thread; one at a time sweeps.
"""

import logging

from paceline.coordinator.cuts import ManifestOrder
from paceline.coordinator.state import CoordinatorState
from paceline.errors import StoreError
from paceline.messages import PartPlan
from paceline.store.blobs import BlobStore, digest
from paceline.store.manifest import Manifest
from paceline.store.retention import sweep, sweep_constants

_log = logging.getLogger("paceline.coordinator")


def manifest_of(order: ManifestOrder, run: str, created: float) -> Manifest:
    """What makes a cut true, of a run, at a time of the wall's clock."""
    return Manifest(
        run=run,
        cut=order.cut,
        timeline=order.timeline,
        files=order.files,
        plans=order.plans,
        rounds=order.rounds,
        queue=order.queue,
        queue_xxh3=digest(order.queue),
        created=created,
        records=order.records,
        steps=order.steps,
    )


def sweep_cuts(store: BlobStore, state: CoordinatorState, keep: int) -> None:
    """Remove what the last journalled cut replaces, and what no cut names any more."""
    cut = state.durable.cut
    assert cut is not None

    def planned() -> list[PartPlan]:
        return [record.plan for record in list(state.durable.parts.values())]

    try:
        sweep(store, keep, cut.folder)
        sweep_constants(store, planned)
    except StoreError:
        _log.exception("old cuts could not be removed")

"""What makes a cut true, as it is written, and what may go when it is.

Waits: for storage. Any thread.
"""

import logging

from paceline.coordinator.cuts import ManifestOrder
from paceline.coordinator.service_values import Values
from paceline.coordinator.state import CoordinatorState, ManifestWritten
from paceline.errors import StoreError
from paceline.failpoints import failpoint
from paceline.ids import cut_folder
from paceline.messages import PartPlan
from paceline.store.blobs import BlobStore, digest
from paceline.store.manifest import Manifest, write_manifest
from paceline.store.retention import drop_cut, sweep, sweep_constants

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


def wait_committed(
    store: BlobStore, order: ManifestOrder, run: str, created: float
) -> ManifestWritten:
    """The manifest is written, or the event says why not."""
    error = None
    try:
        failpoint("coordinator.before_manifest")
        write_manifest(store, manifest_of(order, run, created))
    except Exception as failure:  # noqa: BLE001  (a cut that never ends ends the job)
        _log.exception("cut %d could not be committed", order.cut)
        is_told = isinstance(failure, StoreError)  # its text says all
        error = str(failure) if is_told else f"{type(failure).__name__}: {failure}"
    failpoint("coordinator.after_manifest")
    return ManifestWritten(order.cut, cut_folder(order.cut, order.timeline), error)


def wait_dropped(store: BlobStore, folder: str) -> None:
    """Remove what was written of a cut that was given up."""
    try:
        drop_cut(store, folder)
    except StoreError:
        _log.exception("%s could not be removed; a later sweep will", folder)


def wait_swept(
    store: BlobStore, state: CoordinatorState, keep: int, values: Values
) -> None:
    """Remove what the last journalled cut replaces, and what no cut names any more."""
    cut = state.durable.cut
    assert cut is not None

    def planned() -> list[PartPlan]:
        return [record.plan for record in list(state.durable.parts.values())]

    try:
        sweep(store, keep, cut.folder)
        sweep_constants(store, planned)
        values.sweep()
    except StoreError:
        _log.exception("old cuts could not be removed")

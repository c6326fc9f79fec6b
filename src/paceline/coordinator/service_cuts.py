"""What makes a cut true, as it is written, and what may go when it is.

Waits: for storage. Any thread.
"""

import logging

from paceline.config import JobConfig
from paceline.coordinator.cuts import ManifestOrder
from paceline.coordinator.service_values import Values
from paceline.coordinator.state import CoordinatorState, ManifestWritten
from paceline.errors import StoreError
from paceline.failpoints import failpoint
from paceline.ids import cut_folder
from paceline.messages import PartPlan
from paceline.store.blobs import BlobStore, digest
from paceline.store.claims import taken_over
from paceline.store.manifest import Manifest, write_manifest
from paceline.store.ownership import foreign_cuts, owner_of
from paceline.store.retention import drop_cut, sweep, sweep_constants

_log = logging.getLogger("paceline.coordinator")


def manifest_of(order: ManifestOrder, config: JobConfig, created: float) -> Manifest:
    """What makes a cut true, of a run, at a time of the wall's clock."""
    return Manifest(
        run=config.run,
        job=config.job,
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
    store: BlobStore, order: ManifestOrder, config: JobConfig, created: float
) -> ManifestWritten:
    """The manifest is written, or the event says why not.

    Nothing is committed once another run has claimed the place.
    """
    error = newer = None
    try:
        failpoint("coordinator.before_manifest")
        newer = taken_over(store, config.run)
        if newer is None:
            write_manifest(store, manifest_of(order, config, created))
    except Exception as failure:  # noqa: BLE001  (a cut that never ends ends the job)
        _log.exception("cut %d could not be committed", order.cut)
        error = f"{type(failure).__name__}: {failure}"
    failpoint("coordinator.after_manifest")
    folder = cut_folder(order.cut, order.timeline)
    if newer is None:
        return ManifestWritten(order.cut, folder, error)
    error = (
        f"{store.url} belongs to {newer} since, and this run takes no more checkpoints "
        f"there: see to it that a job runs from one folder only"
    )
    return ManifestWritten(order.cut, folder, error, is_taken_over=True)


def wait_dropped(store: BlobStore, folder: str, run: str) -> None:
    """Remove what was written of a cut that was given up, if the place is the run's."""
    try:
        if taken_over(store, run) is None:
            drop_cut(store, folder)
    except StoreError:
        _log.exception("%s could not be removed; a later sweep will", folder)


def wait_swept(
    store: BlobStore, state: CoordinatorState, config: JobConfig, values: Values
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
    except StoreError:
        _log.exception("old cuts could not be removed")

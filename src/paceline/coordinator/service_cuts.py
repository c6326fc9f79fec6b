"""What makes a cut true, as it is written.

Waits for nothing. Any thread.
"""

from paceline.coordinator.cuts import ManifestOrder
from paceline.store.blobs import digest
from paceline.store.manifest import Manifest


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

"""How the cuts of a job look: what `paceline checkpoint list` and `verify` show.

Waits: for storage; with ``read_all`` every byte of a cut is read. Any thread.
"""

from typing import NamedTuple

from paceline.errors import CheckpointCorrupt
from paceline.store.blobs import BlobStore, verify_constants
from paceline.store.cuts import Cut, Manifest, read_manifest, verify_cut


class CutView(NamedTuple):
    """A committed cut; what its manifest says is None when that is damaged.

    Attributes:
        records: acknowledged records when the queue was copied.
        created: seconds since 1970, by the coordinator's clock.
        bytes: of its files.
        problem: what is damaged; None if nothing was found.
        job: id of the job; of a version that named none, ``run`` and the run's id.
    """

    cut: int
    timeline: int
    folder: str
    records: int | None
    steps: int | None
    created: float | None
    bytes: int | None
    problem: str | None
    job: str | None


def view_cut(store: BlobStore, cut: Cut, *, read_all: bool) -> CutView:
    """Look at a cut.

    Args:
        store: where cuts lie.
        cut: one of `paceline.store.cuts.manifest.list_cuts`.
        read_all: read every byte; else the manifest and the sizes of files.

    Raises:
        StoreError: the storage fails, or the format is unknown.
    """
    manifest: Manifest | None = None
    problem = None
    try:
        manifest = read_manifest(store, cut.folder)
        if read_all:
            verify_cut(store, cut.folder)
        else:
            place = store.folder(cut.folder)
            for entries in manifest.files.values():
                for entry in entries:
                    place.verify_size(entry)
            verify_constants(store, manifest.plans, read_all=False)
    except CheckpointCorrupt as error:
        problem = str(error)
    if manifest is None:
        return CutView(*cut, None, None, None, None, problem, None)
    size = sum(entry.bytes for entries in manifest.files.values() for entry in entries)
    job = manifest.job or f"run {manifest.run}"
    return CutView(
        *cut, manifest.records, manifest.steps, manifest.created, size, problem, job
    )

"""How the cuts of a job look: what `paceline checkpoint list` and `verify` show.

Waits: for storage; with ``read_all`` every byte of a cut is read. Any thread.
"""

from typing import NamedTuple

from paceline.errors import CheckpointCorrupt
from paceline.store.blobs import BlobStore, verify_constants
from paceline.store.cuts import Cut, Manifest, read_manifest, verify_cut


class CutView(NamedTuple):
    """A committed cut; what its manifest says is None when that is damaged."""

    cut: int
    timeline: int
    folder: str
    records: int | None  # acknowledged records when the queue was copied
    steps: int | None
    created: float | None  # seconds since 1970, by the coordinator's clock
    bytes: int | None  # of its files
    problem: str | None  # what is damaged; None if nothing was found
    job: str | None  # id of the job; of a version that named none, ``run`` and the run's id


def view_cut(store: BlobStore, cut: Cut, *, read_all: bool) -> CutView:
    """Look at a cut: at every byte, or at the manifest and the sizes of files.

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
            for entry in manifest.entries():
                place.verify_size(entry)
            verify_constants(store, manifest.plans, read_all=False)
    except CheckpointCorrupt as error:
        problem = str(error)
    if manifest is None:
        return CutView(*cut, None, None, None, None, problem, None)
    size = sum(entry.bytes for entry in manifest.entries())
    job = manifest.job or f"run {manifest.run}"
    return CutView(
        *cut, manifest.records, manifest.steps, manifest.created, size, problem, job
    )

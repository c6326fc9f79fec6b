"""Which cuts of a place are a job's own, and which are to be left alone.

A place that is claimed (`paceline.store.cuts.claims`) holds the cuts of one job. Versions
before did not claim, so two jobs may have left their cuts in one place: those of another
job are neither loaded nor removed. A manifest says of which job its cut is; older ones
say only of which run. They are a job's own in its own job folder, and elsewhere if they
are of the run that the job was when it got its id.

Waits: for storage; every manifest of the place is read. Any thread.
"""

from typing import NamedTuple

from paceline.config import JobConfig
from paceline.errors import CheckpointCorrupt
from paceline.store.blobs import BlobStore
from paceline.store.cuts.manifest import Cut, Manifest, cut_folders, read_manifest


class Owner(NamedTuple):
    """A job, as the one that keeps its cuts in a place.

    Attributes:
        job: its id.
        has_unnamed: whether cuts that name no job are its own: the place is in its folder.
    """

    job: str
    has_unnamed: bool = False

    def has(self, manifest: Manifest) -> bool:
        """Whether a cut is the job's own."""
        if manifest.job:
            return manifest.job == self.job
        return self.has_unnamed or manifest.run == self.job


class ForeignCut(NamedTuple):
    """A cut that is to be left alone; ``why`` says so in words."""

    cut: Cut
    why: str


def owner_of(config: JobConfig) -> Owner:
    """A job where it keeps its cuts."""
    return Owner(config.job, has_unnamed=not config.checkpoints)


def foreign_cuts(store: BlobStore, owner: Owner) -> tuple[ForeignCut, ...]:
    """What of a place is not the job's own, oldest first, committed or not.

    A folder whose manifest is missing or damaged is the job's own, unless a foreign cut is
    on the same timeline or a later one: a job that goes on in such a place begins a
    timeline behind all that lies there.

    Raises:
        StoreError: the storage fails, or the format of a manifest is unknown.
    """
    foreign: list[ForeignCut] = []
    unknown: list[ForeignCut] = []
    for cut in cut_folders(store):
        where = f"{store.url}/{cut.folder}"
        try:
            manifest = read_manifest(store, cut.folder)
        except CheckpointCorrupt as error:
            unknown.append(
                ForeignCut(cut, f"{where}: it is not known whose it is: {error}")
            )
            continue
        if not owner.has(manifest):
            foreign.append(ForeignCut(cut, f"{where}: it is of {name_owner(manifest)}"))
    last = max((one.cut.timeline for one in foreign), default=-1)
    foreign += [one for one in unknown if one.cut.timeline <= last]
    return tuple(sorted(foreign, key=lambda one: (one.cut.timeline, one.cut.cut)))


def name_owner(manifest: Manifest) -> str:
    """Whose a cut is, in words."""
    if manifest.job:
        return f"job {manifest.job}"
    return f"run {manifest.run}, taken by a version that named no job"

"""The place of checkpoints, as it is typed."""

from pathlib import Path

from paceline.launch.job import require_utf8
from paceline.store.blobs import BlobStore


def place_of_cuts(text: str | None) -> str | None:
    """Where cuts lie, for every process of the job; looked at before anything is made."""
    if text is None:
        return None
    place = text if "://" in text else str(Path(text).absolute())
    require_utf8("--checkpoints", place)
    return BlobStore(place).url

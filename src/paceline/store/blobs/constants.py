"""What never changes, beside the cuts: written once, by content, and named by every cut.

::

    constants/<xxh3-128 of the bytes>    frozen parameters of a part, one after the other;
                                         which is where, the manifest's plans say

Waits: for storage. Any thread.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from paceline.errors import CheckpointCorrupt, StoreError
from paceline.messages.server import FileEntry
from paceline.messages.shared import Beside, PartPlan
from paceline.store.blobs.blobs import BlobStore, digest
from paceline.store.blobs.local_files import Buffer

FOLDER: Final = "constants"
_NAME = re.compile(r"[0-9a-f]{32}")


def is_constant_name(name: str) -> bool:
    """Whether a file of constants may be called so."""
    return _NAME.fullmatch(name) is not None


def constants_of(plans: Iterable[PartPlan]) -> dict[str, FileEntry]:
    """The files that plans name, by name."""
    found = [plan.spec.beside for plan in plans]
    return {one.name: _entry(one) for one in found if one is not None and one.frozen}


def write_constants(store: BlobStore, beside: Beside, buffers: Sequence[Buffer]) -> None:
    """Write the bytes of frozen parameters, durable when this returns; again, nothing.

    Raises:
        StoreError: these are not the bytes that are described, or the storage fails.
    """
    entry = _entry(beside)
    num_bytes = sum(memoryview(buffer).nbytes for buffer in buffers)
    if (num_bytes, digest(*buffers)) != (entry.bytes, entry.xxh3):
        raise StoreError(
            f"{store.url}/{FOLDER}: expected {entry.bytes} bytes of xxh3 {entry.xxh3}, "
            f"came {num_bytes} of {digest(*buffers)}"
        )
    place = store.folder(FOLDER)
    try:
        place.verify(entry)
    except CheckpointCorrupt:
        place.remove(entry.name)  # damaged, if it is there at all
        place.write(entry.name, buffers)


def verify_constants(
    store: BlobStore, plans: Iterable[PartPlan], *, read_all: bool = True
) -> None:
    """Check the files that plans name; without ``read_all`` only that they are there.

    Raises:
        CheckpointCorrupt: names the file that is missing or differs.
    """
    place = store.folder(FOLDER)
    for entry in constants_of(plans).values():
        (place.verify if read_all else place.verify_size)(entry)


def read_constants(store: BlobStore, beside: Beside) -> bytes:
    """The bytes of all frozen parameters of a part, checked.

    Raises:
        CheckpointCorrupt: they are missing, or differ.
    """
    return store.folder(FOLDER).read_entry(_entry(beside))


def _entry(beside: Beside) -> FileEntry:
    return FileEntry(beside.name, beside.bytes, beside.xxh3)

"""Files beside the cuts that are called what they hash to: written once, by content.

::

    constants/<xxh3-128 of the bytes>    frozen parameters of a part, one after the other;
                                         which is where, the manifest's plans say
    values/<xxh3-128 of the bytes>       what evaluations came to; a cut's queue names them

A name says what the bytes are, so writing twice is writing once, and what is read is
checked. What nobody names may go.

Waits: for storage. Any thread.
"""

import contextlib
import re
from collections.abc import Iterable, Sequence
from typing import Final

import xxhash

from paceline.errors import CheckpointCorrupt, StoreError
from paceline.messages.results import KeptBytes
from paceline.messages.server import FileEntry
from paceline.messages.shared import Beside, PartPlan
from paceline.store.blobs.blobs import BlobStore, digest
from paceline.store.blobs.local_files import Buffer

FOLDER: Final = "constants"
_VALUES: Final = "values"
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


def describe_bytes(data: bytes) -> KeptBytes:
    """What these bytes are called here; nothing is written."""
    return KeptBytes(xxhash.xxh3_128(data).hexdigest(), len(data))


def put_bytes(store: BlobStore, data: bytes) -> KeptBytes:
    """Let these bytes lie in ``values``, durably; the same bytes lie there once.

    Raises:
        StoreError: the storage is full or fails; call again to try again.
    """
    kept = describe_bytes(data)
    place = store.folder(_VALUES)
    if place.size(kept.digest) == kept.bytes:
        return kept
    place.remove(kept.digest)  # of another size it is not what its name says
    try:
        place.write(kept.digest, [data])
    except StoreError:
        with contextlib.suppress(StoreError):
            if place.size(kept.digest) == kept.bytes:  # another one was faster
                return kept
        raise
    return kept


def get_bytes(store: BlobStore, kept: KeptBytes) -> bytes:
    """The bytes, checked.

    Raises:
        CheckpointCorrupt: they are gone, or others.
        StoreError: the storage fails.
    """
    place = store.folder(_VALUES)
    place.verify_size(FileEntry(kept.digest, kept.bytes, ""))
    data = place.read(kept.digest)
    came = describe_bytes(data).digest
    if came != kept.digest:
        where = f"{place.url}/{kept.digest}"
        raise CheckpointCorrupt(f"{where}: expected xxh3 {kept.digest}, came {came}")
    return data


def digests(store: BlobStore) -> list[str]:
    """Of all that lies there."""
    return [name for name in store.folder(_VALUES).names() if _NAME.fullmatch(name)]


def remove_bytes(store: BlobStore, digest: str) -> None:
    """Nobody names these bytes any more; it is no error if they are gone."""
    store.folder(_VALUES).remove(digest)

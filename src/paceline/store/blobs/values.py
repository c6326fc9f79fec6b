"""Bytes that lie beside the cuts, each once, under the name of what they hash to.

::

    checkpoints/cut-000012-t3/...       its queue names values by digest
    checkpoints/values/<xxh3-128>       written once; named by many cuts

A name says what the bytes are, so writing twice is writing once, and what is read is
checked by its name. What nobody names may go.

Waits: for storage. Any thread.
"""

import contextlib
import re

import xxhash

from paceline.errors import CheckpointCorrupt, StoreError
from paceline.messages.results import KeptBytes
from paceline.store.blobs.blobs import BlobStore

FOLDER = "values"
_DIGEST = re.compile(r"[0-9a-f]{32}")


def describe_bytes(data: bytes) -> KeptBytes:
    """What these bytes are called here; nothing is written."""
    return KeptBytes(xxhash.xxh3_128(data).hexdigest(), len(data))


def put_bytes(store: BlobStore, data: bytes) -> KeptBytes:
    """Let these bytes lie in ``values``, durably; the same bytes lie there once.

    Raises:
        StoreError: the storage is full or fails; call again to try again.
    """
    kept = describe_bytes(data)
    place = store.folder(FOLDER)
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
    place = store.folder(FOLDER)
    where = f"{place.url}/{kept.digest}"
    size = place.size(kept.digest)
    if size is None:
        raise CheckpointCorrupt(f"{where}: the file is missing")
    if size != kept.bytes:
        raise CheckpointCorrupt(f"{where}: expected {kept.bytes} bytes, came {size}")
    data = place.read(kept.digest)
    came = describe_bytes(data).digest
    if came != kept.digest:
        raise CheckpointCorrupt(f"{where}: expected xxh3 {kept.digest}, came {came}")
    return data


def digests(store: BlobStore) -> list[str]:
    """Of all that lies there."""
    return [name for name in store.folder(FOLDER).names() if _DIGEST.fullmatch(name)]


def remove_bytes(store: BlobStore, digest: str) -> None:
    """Nobody names these bytes any more; it is no error if they are gone."""
    store.folder(FOLDER).remove(digest)

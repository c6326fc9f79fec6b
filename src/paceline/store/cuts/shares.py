"""A server's file of a cut as bytes: what lies in it, under which names.

::

    cut-000012-t0/server-1.safetensors
        slot/<slot>/<name>     what the shard exports: slot/3/values, slot/3/state/exp_avg,
                               slot/9/table/user/ids, slot/9/table/user/values, ...
        standing               marks and versions, the server's own affair
        tracked                the state of the user's tracked objects, where it is kept

Numbers stay bytes here, so that torch need not be there to look at a cut.

Waits: for storage. Any thread.
"""

from typing import NamedTuple

import msgspec
import safetensors
from safetensors import SafetensorError

from paceline.errors import CheckpointCorrupt
from paceline.messages.server import FileEntry
from paceline.store.blobs import BlobStore

STANDING = "standing"
TRACKED = "tracked"
_SLOT = "slot/"


class RawTensor(NamedTuple):
    """A tensor as it lies in a file; ``dtype`` is safetensors' word, e.g. ``"F32"``."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


def tensor_name(slot: int, name: str) -> str:
    """The name in a file of what a slot calls ``name``."""
    return f"{_SLOT}{slot}/{name}"


def slot_and_name(path: str) -> tuple[int, str]:
    """Undo `tensor_name`.

    Raises:
        ValueError: it is no such name.
    """
    slot, slash, name = path.removeprefix(_SLOT).partition("/")
    if not path.startswith(_SLOT) or not slash or not slot.isdecimal():
        raise ValueError(f"expected {_SLOT}<slot>/<name>, got {path!r}")
    return int(slot), name


class ShareBytes(NamedTuple):
    """A server's file: ``slots`` are ``{slot: {name: tensor}}``.

    ``tracked`` are the bytes of the state of tracked objects, ``number`` which one it is;
    0: none was kept.
    """

    slots: dict[int, dict[str, RawTensor]]
    number: int
    tracked: bytes


class _Standing(msgspec.Struct):
    tracked: int = 0


def read_share_bytes(store: BlobStore, entry: FileEntry) -> ShareBytes:
    """All that lies in a server's file, every byte checked.

    The whole file is held in memory.

    Raises:
        CheckpointCorrupt: the file is missing, differs from its entry, or is no share.
        StoreError: the storage fails.
    """
    data = store.read_entry(entry)
    slots: dict[int, dict[str, RawTensor]] = {}
    apart = {STANDING: b"", TRACKED: b""}
    try:
        for path, about in safetensors.deserialize(data):  # type: ignore[no-untyped-call]  # the library's door
            if path in apart:
                apart[path] = bytes(about["data"])
                continue
            slot, name = slot_and_name(path)
            tensor = RawTensor(about["dtype"], tuple(about["shape"]), bytes(about["data"]))
            slots.setdefault(slot, {})[name] = tensor
        standing = _Standing()
        if apart[STANDING]:
            standing = msgspec.msgpack.decode(apart[STANDING], type=_Standing)
    except (SafetensorError, ValueError) as error:  # of msgspec, too
        raise CheckpointCorrupt(
            f"{store.url}/{entry.name}: not a server's share of a cut: {error}"
        ) from error
    return ShareBytes(slots, standing.tracked, apart[TRACKED])

"""A server's file of a cut as bytes, as it is written and read without torch.

::

    cut-000012-t0/server-1.safetensors
        slot/<slot>/<name>     what the shard exports: slot/3/values, slot/3/state/exp_avg,
                               slot/9/table/user/ids, slot/9/table/user/values, ...
        standing               marks and versions, the server's own affair
        tracked                the state of the user's tracked objects, where it is kept

    a file      8 bytes: length of the head, little-endian
                head: {"__metadata__": {...}, "fc.weight": {"dtype", "shape",
                "data_offsets"}}
                numbers of each tensor, one after the other, in the order of the head

    tracked     safetensors: "tree" (uint8: msgpack), "0", "1", ...
                tree: ["dict", [["buffers of part 0", ["dict", [["1.running_mean",
                ["tensor", "0"]], ...]]], ...]]; `paceline.trainer.encoding.state_codec`
                says all that a tree may hold

Waits: for storage, where a store is given. Any thread. Source of the format: its
description in the safetensors repository.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

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
    data: bytes | memoryview


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


_LENGTH_BYTES = 8
_ALIGNMENT = 8
_WIDTHS = {"BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "C64": 64}  # those not told by the word


def file_buffers(
    tensors: Mapping[str, RawTensor], words: Mapping[str, str]
) -> list[bytes | memoryview]:
    """A safetensors file as buffers: the head, then each tensor's numbers.

    Wide elements come first, so that every tensor begins at a multiple of its element's
    size, which readers that map the file rely on.
    """
    ordered = sorted(tensors.items(), key=lambda item: (-_width(item[1]), item[0]))
    head: dict[str, object] = {"__metadata__": dict(words)}
    stop = 0
    for name, tensor in ordered:
        start, stop = stop, stop + len(tensor.data)
        head[name] = {
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": (start, stop),
        }
    encoded = msgspec.json.encode(head)
    encoded += b" " * (-len(encoded) % _ALIGNMENT)
    length = len(encoded).to_bytes(_LENGTH_BYTES, "little")
    return [length, encoded, *(tensor.data for _, tensor in ordered)]


def _width(tensor: RawTensor) -> int:
    """Bits of an element, as its word tells: 64 of ``F64``, 16 of ``BF16``."""
    return _WIDTHS.get(tensor.dtype) or int(tensor.dtype.lstrip("BFIU"))


_TREE = "tree"


def read_buffers(data: bytes, states: Collection[str]) -> dict[str, dict[str, RawTensor]]:
    """Those of the named states that are there: ``{state: {buffer: tensor}}``.

    Raises:
        CheckpointCorrupt: these are no bytes of a state.
    """
    try:
        held = dict(safetensors.deserialize(data))  # type: ignore[no-untyped-call]  # the library's door
        tree = msgspec.msgpack.decode(bytes(held[_TREE]["data"]))
        found: dict[str, dict[str, RawTensor]] = {}
        for state, content in _pairs(tree):
            if state in states:
                pairs = _pairs(content)
                found[state] = {name: _tensor(held, one) for name, one in pairs}
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise CheckpointCorrupt(f"not a state that was kept: {error!r}") from error
    return found


def _pairs(tree: Any) -> list[tuple[str, Any]]:  # noqa: ANN401  (whatever was decoded)
    tag, pairs = tree
    if tag != "dict":
        raise ValueError(f"expected a dict, came a {tag!r}")
    return [(name, content) for name, content in pairs]


def _tensor(held: dict[str, Any], tree: Any) -> RawTensor:  # noqa: ANN401  (the same)
    tag, index = tree
    if tag != "tensor":
        raise ValueError(f"expected a tensor, came a {tag!r}")
    about = held[index]
    return RawTensor(about["dtype"], tuple(about["shape"]), bytes(about["data"]))

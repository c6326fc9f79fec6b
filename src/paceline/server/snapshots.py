"""A server's share of a cut, one file with all its slots; moments that are held for it.

What lies in it under which name: `paceline.store.cuts.shares`. ``standing`` is uint8:
msgpack of the slots' marks, the parts' voids and versions; ``tracked`` is uint8: the state
of tracked objects, on the server that keeps it.

Waits: for storage. Any thread.
"""

import threading
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import torch

from paceline.errors import CheckpointCorrupt
from paceline.ids import TaskKey
from paceline.messages.server import FileEntry, Restore
from paceline.params.shard import SlotSnapshot
from paceline.server.decisions import KeptVoid, SlotMarks, TrackedState
from paceline.server.slots import Action, Slots, SlotTensors
from paceline.store.blobs import BlobStore
from paceline.store.cuts import STANDING, TRACKED, slot_and_name, tensor_name
from paceline.store.tensors import read_tensors, write_tensors


class CutShare(NamedTuple):
    """What a server keeps in a cut."""

    slots: dict[int, SlotTensors]  # {slot: all that it holds}
    marks: dict[int, SlotMarks]  # {slot: marks}
    versions: dict[int, int]  # {part: updates applied by the writing server}
    tracked: TrackedState = TrackedState()
    voids: tuple[KeptVoid, ...] = ()


class _Standing(msgspec.Struct, frozen=True):
    marks: dict[int, tuple[tuple[TaskKey, int], ...]]
    versions: dict[int, int]
    tracked: int = 0
    voids: tuple[KeptVoid, ...] = ()


_standing_decoder = msgspec.msgpack.Decoder(_Standing)


def share_name(server: str) -> str:
    """The name of a server's file inside a cut's folder."""
    return f"{server}.safetensors"


def write_share(store: BlobStore, folder: str, server: str, share: CutShare) -> FileEntry:
    """Write a server's file of a cut, durable when this returns.

    Raises:
        StoreError: it is there already, or the storage is full or fails.
    """
    marks = {slot: tuple(found.items()) for slot, found in share.marks.items()}
    standing = msgspec.msgpack.encode(
        _Standing(marks, share.versions, share.tracked.number, share.voids)
    )
    tensors = {
        tensor_name(slot, name): tensor
        for slot, held in share.slots.items()
        for name, tensor in held.items()
    }
    if share.tracked.number:
        data = np.frombuffer(share.tracked.data, np.uint8)
        tensors[TRACKED] = torch.from_numpy(data.copy())
    tensors[STANDING] = torch.from_numpy(np.frombuffer(standing, np.uint8).copy())
    return write_tensors(store.folder(folder), share_name(server), tensors, {})


def read_share(
    store: BlobStore, order: Restore, server: str, wanted: Sequence[int]
) -> CutShare:
    """The slots ``wanted`` of a cut, from whichever files hold them, every byte checked.

    The server's own file is read first, and others only for what it lacks.

    Raises:
        CheckpointCorrupt: a file is missing or damaged, or no file holds a slot.
        StoreError: the storage fails.
    """
    found = CutShare({}, {}, {})
    if order.folder is None:
        return found
    tracked, voids = TrackedState(), set[KeptVoid]()
    own = share_name(server)
    for entry in sorted(order.files, key=lambda entry: (entry.name != own, entry.name)):
        missing = set(wanted) - found.slots.keys()
        if entry.name != own and not missing:
            break
        file = _read_file(store.folder(order.folder), entry)
        for slot in missing & file.slots.keys():
            found.slots[slot] = file.slots[slot]
            found.marks[slot] = file.marks.get(slot, {})
        for part, version in file.versions.items():
            found.versions.setdefault(part, version)
        tracked, voids = max(tracked, file.tracked), voids | set(file.voids)
    missing = set(wanted) - found.slots.keys()
    if missing:
        names = [entry.name for entry in order.files]
        raise CheckpointCorrupt(
            f"{store.url}/{order.folder}: expected the slots {sorted(missing)} in one of "
            f"the files {names}, found them in none"
        )
    return found._replace(tracked=tracked, voids=tuple(sorted(voids)))


def _read_file(store: BlobStore, entry: FileEntry) -> CutShare:
    tensors, _ = read_tensors(store, entry)
    slots: dict[int, SlotTensors] = {}
    try:
        data = tensors.pop(STANDING).numpy().tobytes()
        standing = _standing_decoder.decode(data)
        kept = tensors.pop(TRACKED, None)
        tracked = b"" if kept is None else kept.numpy().tobytes()
        for path, tensor in tensors.items():
            slot, name = slot_and_name(path)
            slots.setdefault(slot, {})[name] = tensor
    except (KeyError, ValueError, msgspec.DecodeError) as error:
        raise CheckpointCorrupt(
            f"{store.url}/{entry.name}: not a server's share of a cut: {error!r}"
        ) from error
    marks = {slot: dict(pairs) for slot, pairs in standing.marks.items()}
    state = TrackedState(standing.tracked, tracked)
    return CutShare(slots, marks, standing.versions, state, standing.voids)


class Pinned(NamedTuple):
    """A moment that is held for a cut: by every slot when ``done`` is set.

    ``run`` must be called once, by anybody.
    """

    timeline: int
    slots: Slots
    snapshots: dict[int, SlotSnapshot]  # {slot: snapshot}
    marks: dict[int, SlotMarks]  # {slot: marks}
    versions: dict[int, int]  # {part: updates applied}
    voids: tuple[KeptVoid, ...]
    tracked: TrackedState
    run: Action
    done: threading.Event


class Repacing(NamedTuple):
    """Numbers on their way from one pace's slots to another's.

    ``run`` must be called once, by anybody; ``done`` is set when ``slots`` hold all.
    """

    slots: Slots
    run: Action
    done: threading.Event

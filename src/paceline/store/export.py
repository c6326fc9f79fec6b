"""A cut as files for everybody: a state_dict in safetensors, and the rows of tables.

::

    model.safetensors         <name> of each parameter, shared or frozen, tied ones under
                              all names, and of each persistent buffer: what
                              load_state_dict takes with strict=True
    model.rows.safetensors    <table>.ids   int64 (n,), ascending
                              <table>.rows  (n, dim), row i is that of ids[i]; float32,
                                            or as a table of the user's own has them

Optimizer state stays in the cut. The second file is made only if there are tables; it is
apart because `load_state_dict` takes the first one as it is, and rows have no place in it.

Waits: for storage; every byte of the files that are read is checked. Any thread.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.errors import CheckpointCorrupt, UsageError
from paceline.messages.server import FileEntry
from paceline.messages.shared import Beside
from paceline.store.blobs import BlobStore, read_constants
from paceline.store.cuts import (
    DTYPES,
    FROZEN_DTYPES,
    DensePlan,
    ExportPlan,
    Manifest,
    RawTensor,
    TablePlan,
    cut_folder,
    file_buffers,
    read_buffers,
    read_share_bytes,
    require_distinct,
)

_SUFFIX = ".safetensors"
_Int64s = NDArray[np.int64]
_Values = np.ndarray[Any, np.dtype[Any]]
_Slots = Mapping[int, Mapping[str, RawTensor]]


class Exported(NamedTuple):
    """What was written; ``rows`` is None without tables."""

    dense: FileEntry
    rows: FileEntry | None
    num_tensors: int
    num_rows: dict[str, int]  # {table: rows}


def rows_name(name: str) -> str:
    """The name of the second file: ``model.rows.safetensors``."""
    return f"{name.removesuffix(_SUFFIX)}.rows{_SUFFIX}"


def export_cut(
    store: BlobStore, manifest: Manifest, plan: ExportPlan, to: BlobStore, name: str
) -> Exported:
    """Write the files of an export; the model's file last, so that it means success.

    All that is exported is held in memory.

    Raises:
        CheckpointCorrupt: a file of the cut is damaged, or lacks what the plan says;
            nothing is written.
        UsageError: the cut has no state of the buffers yet, or two models have buffers of
            one name.
        StoreError: the storage fails, or there is a file of this name already.
    """
    slots, tracked = _read_slots(store, manifest, plan)
    words = {
        "format": "pt",
        "cut": str(manifest.cut),
        "timeline": str(manifest.timeline),
        "records": str(manifest.records),
    }
    dense: dict[str, RawTensor] = {}
    for parameter in plan.dense:
        word = DTYPES[parameter.dtype][0]
        whole = RawTensor(word, parameter.shape, _joined(slots, parameter))
        dense |= dict.fromkeys(parameter.names, whole)
    for beside in plan.beside:
        dense |= _frozen(store, beside, dense)
    dense |= _buffers(manifest, plan, tracked)
    rows: dict[str, RawTensor] = {}
    num_rows = {}
    for table in plan.tables:
        ids, values = _rows(slots, table)
        num_rows[table.name] = len(ids)
        rows[f"{table.name}.ids"] = RawTensor("I64", ids.shape, ids.tobytes())
        rows[f"{table.name}.rows"] = RawTensor(
            FROZEN_DTYPES[table.dtype][0], values.shape, values.tobytes()
        )
    entry = None
    if rows:
        entry = to.write(rows_name(name), file_buffers(rows, words))
    return Exported(to.write(name, file_buffers(dense, words)), entry, len(dense), num_rows)


def _frozen(
    store: BlobStore, beside: Beside, known: Mapping[str, RawTensor]
) -> dict[str, RawTensor]:
    """Frozen parameters under all their names; two models may have the same one."""
    found: dict[str, RawTensor] = {}
    data = memoryview(read_constants(store, beside) if beside.frozen else b"")
    start = 0
    for spec in beside.frozen:
        word, width = FROZEN_DTYPES[spec.dtype]
        stop = start + math.prod(spec.shape) * width
        tensor = RawTensor(word, spec.shape, bytes(data[start:stop]))
        found |= dict.fromkeys(spec.names, tensor)
        start = stop
    differing = [name for name in found if known.get(name, found[name]) != found[name]]
    require_distinct("parameter", 2 * differing)
    return found


def _buffers(manifest: Manifest, plan: ExportPlan, tracked: bytes) -> dict[str, RawTensor]:
    """Persistent buffers of all models, as the state of tracked objects has them."""
    states = dict(plan.states)
    found = read_buffers(tracked, states.keys()) if tracked else {}
    missing = sorted(name for name, must in states.items() if must and name not in found)
    if missing:
        raise UsageError(
            f"cut {manifest.cut} has no state of the model's buffers yet ({missing[0]}), "
            f"such as BatchNorm's averages: it was taken before any trainer had kept one, "
            f"as they do from the first step on; export a later cut (paceline checkpoint "
            f"list shows them)"
        )
    require_distinct("buffer", [name for buffers in found.values() for name in buffers])
    return {name: one for buffers in found.values() for name, one in buffers.items()}


def _read_slots(
    store: BlobStore, manifest: Manifest, plan: ExportPlan
) -> tuple[_Slots, bytes]:
    place = store.folder(cut_folder(manifest.cut, manifest.timeline))
    wanted = plan.slots()
    found: dict[int, dict[str, RawTensor]] = {}
    number, tracked = 0, b""
    for entry in manifest.entries():
        share = read_share_bytes(place, entry)
        if share.number > number:
            number, tracked = share.number, share.tracked
        for slot in wanted & share.slots.keys():
            kept = share.slots[slot]
            # Optimizer state, by far the most, is let go at once.
            found[slot] = {name: kept[name] for name in kept if _is_exported(name)}
    if missing := sorted(wanted - found.keys()):
        raise CheckpointCorrupt(
            f"{place.url}: no file of the cut holds the slots {missing}"
        )
    return found, tracked


def _is_exported(name: str) -> bool:
    return name == "values" or name.endswith(("/ids", "/values"))


def _joined(slots: _Slots, parameter: DensePlan) -> bytes:
    word = DTYPES[parameter.dtype][0]
    pieces = []
    for slot, num_bytes in parameter.pieces:
        tensor = _tensor(slots, slot, "values")
        if (tensor.dtype, len(tensor.data)) != (word, num_bytes):
            raise CheckpointCorrupt(
                f"slot {slot} of parameter {parameter.names}: expected {num_bytes} bytes "
                f"of {word}, came {len(tensor.data)} of {tensor.dtype}"
            )
        pieces.append(tensor.data)
    return b"".join(pieces)


def _rows(slots: _Slots, table: TablePlan) -> tuple[_Int64s, _Values]:
    ids, values = [], []
    dtype = np.dtype(table.dtype).newbyteorder("<")
    for slot in table.slots:
        own_ids = _tensor(slots, slot, f"table/{table.name}/ids")
        own_values = _tensor(slots, slot, f"table/{table.name}/values")
        shapes = own_ids.shape, own_values.shape
        if shapes != (own_ids.shape[:1], (*own_ids.shape[:1], table.dim)) or (
            own_ids.dtype,
            own_values.dtype,
        ) != ("I64", FROZEN_DTYPES[table.dtype][0]):
            raise CheckpointCorrupt(
                f"slot {slot} of table {table.name!r}: expected ids (n,) and rows "
                f"(n, {table.dim}), came {shapes}"
            )
        ids.append(np.frombuffer(own_ids.data, "<i8"))
        values.append(np.frombuffer(own_values.data, dtype).reshape(-1, table.dim))
    all_ids = np.concatenate(ids) if ids else np.empty(0, np.int64)
    all_values = np.concatenate(values) if values else np.empty((0, table.dim), dtype)
    order = np.argsort(all_ids, kind="stable")
    return all_ids[order], all_values[order]


def _tensor(slots: _Slots, slot: int, name: str) -> RawTensor:
    tensor = slots[slot].get(name)
    if tensor is None:
        raise CheckpointCorrupt(f"slot {slot} of the cut holds no {name!r}")
    return tensor

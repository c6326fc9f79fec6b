"""Which bytes of a cut make up a plain state_dict: planned from the cut's part plans.

::

    parameter "fc.weight" (4, 3)     slot 7: elements 0..6     slot 8: elements 6..12
    table "user", dim 16             rows of the slots 9..25

A parameter's blocks lie in order in their slots; put one after the other they are the
parameter. All names of a tied parameter stand for the same bytes.

Pure.
"""

import math
import operator
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from paceline.config import Combine
from paceline.errors import CheckpointCorrupt, UsageError
from paceline.messages.shared import Beside, FrozenSpec, PartPlan, TableSpec

DTYPES: Final = {  # {torch's word: (safetensors' word, bytes of an element)}
    "float16": ("F16", 2),
    "bfloat16": ("BF16", 2),
    "float32": ("F32", 4),
    "float64": ("F64", 8),
}

FROZEN_DTYPES: Final = {  # the same, of what is only kept; rows are of some of them
    **DTYPES,
    "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e5m2": ("F8_E5M2", 1),
    "bool": ("BOOL", 1),
    "uint8": ("U8", 1),
    "uint16": ("U16", 2),
    "uint32": ("U32", 4),
    "uint64": ("U64", 8),
    "int8": ("I8", 1),
    "int16": ("I16", 2),
    "int32": ("I32", 4),
    "int64": ("I64", 8),
    "complex64": ("C64", 8),
}


class DensePlan(NamedTuple):
    """A parameter: ``names`` of the state_dict, and the slots that hold it, in order."""

    names: tuple[str, ...]
    dtype: str  # torch's word
    shape: tuple[int, ...]
    pieces: tuple[tuple[int, int], ...]  # ((slot, bytes), ...)


class TablePlan(NamedTuple):
    """A table and the slots that hold its rows."""

    name: str
    dim: int
    slots: tuple[int, ...]
    dtype: str = "float32"  # numpy's word


class ExportPlan(NamedTuple):
    """All parameters and tables of an export, and what models have beside them.

    ``states`` are what buffers are tracked as, and whether a state must be there.
    """

    dense: tuple[DensePlan, ...]
    tables: tuple[TablePlan, ...]
    beside: tuple[Beside, ...] = ()
    states: tuple[tuple[str, bool], ...] = ()
    is_strict: bool = True  # False: written by a version that did not know all of it

    def slots(self) -> frozenset[int]:
        """The slots that are read."""
        dense = {slot for one in self.dense for slot, _ in one.pieces}
        return frozenset(dense.union(*(table.slots for table in self.tables)))


def plan_export(plans: Sequence[PartPlan], part: int | None = None) -> ExportPlan:
    """Plan the export of a cut's parts, or of one of them.

    Parts that have ended are left out, unless there are no others.

    Raises:
        UsageError: there is no such part, or two parts have a parameter or table of one
            name: one of them can be chosen.
        CheckpointCorrupt: the blocks of a parameter do not cover it.
    """
    chosen = [plan for plan in plans if plan.spec.part == part]
    if part is None:
        chosen = [plan for plan in plans if not plan.has_ended] or list(plans)
    if part is not None and not chosen:
        known = sorted(plan.spec.part for plan in plans)
        raise UsageError(f"the cut has the parts {known}, got part {part}")
    dense = tuple(one for plan in chosen for one in _plan_dense(plan))
    tables = tuple(
        TablePlan(
            table.name,
            table.dim,
            tuple(range(plan.first_row_slot, plan.first_row_slot + plan.num_row_slots)),
            _dtype_of(table),
        )
        for plan in chosen
        for table in plan.spec.tables
    )
    require_distinct("parameter", [name for one in dense for name in one.names])
    require_distinct("table", [table.name for table in tables])
    told = [(plan.spec, plan.spec.beside) for plan in chosen]
    beside = tuple(one for _, one in told if one is not None)
    states = [(one.state, one.has_buffers) for one in beside if one.state]
    states += [(f"buffers of part {s.part}", False) for s, one in told if one is None]
    is_strict = all(one is not None for spec, one in told if spec.parameters)
    return ExportPlan(dense, tables, beside, tuple(states), is_strict)


def frozen_bytes(spec: FrozenSpec) -> int | None:
    """Bytes of a frozen parameter; None if its dtype cannot be kept."""
    if spec.dtype not in FROZEN_DTYPES:
        return None
    return math.prod(spec.shape) * FROZEN_DTYPES[spec.dtype][1]


def _plan_dense(plan: PartPlan) -> list[DensePlan]:
    found = []
    for index, parameter in enumerate(plan.spec.parameters):
        if parameter.dtype not in DTYPES:
            raise CheckpointCorrupt(
                f"parameter {parameter.names}: expected one of the dtypes {list(DTYPES)}, "
                f"got {parameter.dtype!r}"
            )
        own = [block for block in plan.blocks if block.parameter == index]
        blocks = sorted(own, key=operator.attrgetter("start"))
        stops = [0, *(block.stop for block in blocks)]
        numel = math.prod(parameter.shape)
        if [block.start for block in blocks] != stops[:-1] or stops[-1] != numel:
            raise CheckpointCorrupt(
                f"parameter {parameter.names} has {numel} elements, but its blocks are "
                f"{[(block.start, block.stop) for block in blocks]}"
            )
        size = DTYPES[parameter.dtype][1]
        pieces = tuple((block.slot, (block.stop - block.start) * size) for block in blocks)
        found.append(DensePlan(parameter.names, parameter.dtype, parameter.shape, pieces))
    return found


def require_distinct(what: str, names: list[str]) -> None:
    """Raise a `UsageError` if a name stands for two things."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise UsageError(
            f"several parts have a {what} named {min(repeated)!r}: export one part at a "
            f"time with --part"
        )


def _dtype_of(table: TableSpec) -> str:
    own = table.optimizer
    return own.dtype if isinstance(own, Combine) else "float32"

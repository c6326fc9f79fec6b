"""What a manifest may not say, whoever wrote it: looked at before anything is made of it.

A check sum tells damage, not malice. So names stay inside the cut's folder, numbers are
not negative, slots are those of the plans, and no plan asks for more memory than the
cut's files have bytes: the values of all dense blocks lie in them.

Pure.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from paceline.messages.server import FileEntry
from paceline.messages.shared import Beside, PartPlan
from paceline.store.blobs import is_bare_name, is_constant_name
from paceline.store.cuts.export_plan import DTYPES, frozen_bytes

MAX_DIM: Final = 1 << 20  # values of a row


def wrong_files(files: Mapping[str, Sequence[FileEntry]], taken: str) -> str | None:
    """What is wrong with a cut's files, if anything; ``taken`` is no name of theirs."""
    entries = [entry for entries in files.values() for entry in entries]
    for name in [*files, *(entry.name for entry in entries)]:
        if not is_bare_name(name) or name == taken:
            return f"{name!r} cannot be the name of a server or a file of a cut"
    names = [entry.name for entry in entries]
    if len(set(names)) != len(names):
        return f"two servers wrote one file: {sorted(names)}"
    for entry in entries:
        if entry.bytes < 0:
            return f"{entry.name} cannot have {entry.bytes} bytes"
    return None


def wrong_plans(plans: Sequence[PartPlan], num_bytes: int) -> str | None:
    """What is wrong with a cut's plans, if anything; its files have ``num_bytes``."""
    parts = [plan.spec.part for plan in plans]
    if len(set(parts)) != len(parts) or min(parts, default=0) < 0:
        return f"the parts {parts} cannot be"
    dense_bytes = 0
    slots: set[int] = set()
    for plan in plans:
        wrong = _wrong_plan(plan)
        if wrong is not None:
            return f"part {plan.spec.part}: {wrong}"
        if slots & plan.placement.keys():
            return f"part {plan.spec.part} and another share slots"
        slots |= plan.placement.keys()
        for block in plan.blocks:
            dtype = plan.spec.parameters[block.parameter].dtype
            dense_bytes += (block.stop - block.start) * DTYPES[dtype][1]
    if dense_bytes > num_bytes:
        return f"its blocks have {dense_bytes} bytes, its files only {num_bytes}"
    return None


def _wrong_plan(plan: PartPlan) -> str | None:
    row_slots = range(plan.first_row_slot, plan.first_row_slot + plan.num_row_slots)
    own = {block.slot for block in plan.blocks}
    num_slots = len(plan.blocks) + len(row_slots)
    # Counted before it is spelled out: a range of 2**60 fits into twenty bytes.
    if plan.num_row_slots < 0 or num_slots != len(plan.placement):
        return f"{num_slots} slots are planned, {len(plan.placement)} placed"
    if plan.placement.keys() != own.union(row_slots) or min(plan.placement, default=0) < 0:
        return "other slots are placed than planned"
    if not all(map(is_bare_name, plan.placement.values())):
        return "a slot is placed on what cannot be a server"
    for block in plan.blocks:
        if not 0 <= block.parameter < len(plan.spec.parameters):
            return f"a block is of parameter {block.parameter}, which is none"
        parameter = plan.spec.parameters[block.parameter]
        if parameter.dtype not in DTYPES or min(parameter.shape, default=0) < 0:
            return f"{parameter.shape} {parameter.dtype!r} cannot be a parameter"
        if not 0 <= block.start < block.stop <= math.prod(parameter.shape):
            return f"block {block.start}..{block.stop} is not in {parameter.shape}"
    for table in plan.spec.tables:
        if not 1 <= table.dim <= MAX_DIM:
            return f"table {table.name!r} cannot have rows of {table.dim} values"
    return _wrong_beside(plan.spec.beside)


def _wrong_beside(beside: Beside | None) -> str | None:
    if beside is None or not beside.frozen:
        return None
    if not is_constant_name(beside.name):
        return f"{beside.name!r} cannot be the name of what never changes"
    for one in beside.frozen:
        if frozen_bytes(one) is None or min(one.shape, default=0) < 0 or not one.names:
            return f"{one.shape} {one.dtype!r} cannot be a frozen parameter"
    sizes = sum(frozen_bytes(one) or 0 for one in beside.frozen)
    if sizes != beside.bytes:
        return f"its frozen parameters have {sizes} bytes, their file {beside.bytes}"
    return None

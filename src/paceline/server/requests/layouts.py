"""What of a part lies on a server, and in which form: what requests are checked against.

Pure, but for what `KnownHyper` remembers; any thread may call.
"""

from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch

from paceline.config import Combine, RowOptimizer
from paceline.messages.shared import Hyper, PartPlan, TableSpec
from paceline.pace.guards import compensation_of
from paceline.params.blocks import dtype_bytes
from paceline.params.codecs import Codec, codec_of, codes_blocks_of, value_codec
from paceline.params.rows import RowStep, counts_table_steps, twin_by_now


class TableForm(NamedTuple):
    """A row has ``dim`` numbers of ``dtype``; ids are any, or those that a slot bounds."""

    dim: int
    dtype: np.dtype[Any]
    is_own: bool = False  # the user's own: no embedding
    bounds: dict[int, tuple[int, int]] | None = None  # {slot: first id, first behind}
    follows: RowOptimizer | None = None  # what it began with, if it is the part's twin
    counts_steps: bool = False

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.dim * self.dtype.itemsize


class BlockLayout(NamedTuple):
    """A dense block of this server; ``group`` is its parameter group.

    ``row_bytes`` is what a row of a block with sparse gradients has, 0 for any other.
    ``codec`` is that of its gradients, ``value_codec`` that of its values.
    """

    dtype: torch.dtype
    num_bytes: int
    group: int
    row_bytes: int = 0
    codec: Codec | None = None
    value_codec: Codec | None = None


class KnownHyper(msgspec.Struct):
    """Hyper-parameters that a part's optimizer takes: the last that were looked at."""

    groups: tuple[Hyper, ...] | None = None


class PartLayout(NamedTuple):
    """What of a part lies on this server."""

    part: int
    blocks: dict[int, BlockLayout]  # {dense slot: block}, ascending
    row_slots: frozenset[int]
    tables: dict[str, TableForm]  # by name
    kind: str  # of the optimizer; empty without one
    groups: tuple[Hyper, ...]
    known_hyper: KnownHyper
    has_followers: bool  # its rows need hyper-parameters of the part's optimizer
    codec: Codec | None = None  # of gradients of rows
    value_codec: Codec | None = None  # of rows
    compensation: float | None = None  # lambda of DC-ASGD

    def learns(self) -> bool:
        """Whether there is anything here that is trained."""
        has_own = bool(self.tables) and all(form.is_own for form in self.tables.values())
        return bool(self.blocks) or not has_own

    def row_step(self, hyper: tuple[Hyper, ...], rate: float) -> RowStep:
        """How tables step with these hyper-parameters, which ``rate`` is in already.

        Without any there is no gradient of rows.

        Raises:
            UsageError: a table that follows cannot step so.
        """
        if not hyper:
            return RowStep(rate)
        following = {
            name: twin_by_now(self.kind, hyper[0], form.follows)
            for name, form in self.tables.items()
            if form.follows is not None
        }
        return RowStep(rate, following)


def layout_of(plan: PartPlan, server: str) -> PartLayout:
    """What of a plan lies on a server."""
    here = {slot for slot, holder in plan.placement.items() if holder == server}
    codec = codec_of(plan)
    codecs = codec, value_codec(codec)
    blocks = {}
    for block in sorted(plan.blocks, key=lambda block: block.slot):
        if block.slot in here:
            spec = plan.spec.parameters[block.parameter]
            size = dtype_bytes(spec.dtype)
            num_bytes = (block.stop - block.start) * size
            row_bytes = spec.shape[1] * size if spec.has_sparse_gradients else 0
            dtype: torch.dtype = getattr(torch, spec.dtype)
            coded = codecs if codes_blocks_of(spec.dtype) else (None, None)
            blocks[block.slot] = BlockLayout(
                dtype, num_bytes, spec.group, row_bytes, *coded
            )
    row_slots = range(plan.first_row_slot, plan.first_row_slot + plan.num_row_slots)
    optimizer = plan.spec.optimizer
    tables = {table.name: _form_of(table, plan) for table in plan.spec.tables}
    return PartLayout(
        plan.spec.part,
        blocks,
        frozenset(here.intersection(row_slots)),
        tables,
        optimizer.kind if optimizer is not None else "",
        optimizer.groups if optimizer is not None else (),
        KnownHyper(),
        any(form.follows is not None for form in tables.values()),
        *codecs,
        compensation_of(plan.spec.pace),
    )


def _form_of(table: TableSpec, plan: PartPlan) -> TableForm:
    combine = table.optimizer
    if not isinstance(combine, Combine):
        follows = combine if table.follows else None
        counts = counts_table_steps(combine)
        dtype = np.dtype(np.float32)
        return TableForm(table.dim, dtype, follows=follows, counts_steps=counts)
    bounds = None
    if combine.num_rows is not None:
        first, count = plan.first_row_slot, plan.num_row_slots
        bounds = {first + n: combine.bounds(n, count) for n in range(count)}
    return TableForm(table.dim, np.dtype(combine.dtype), True, bounds)

"""A shard: the slots of one server, with everything that changes with them.

::

    slot         holds                     is exported as
    dense slot   one OptimizeBlock         values, state/<name>
                 (and RowChanges, if its gradients are sparse)
    row slot     {table name: RowTable     table/<name>/ids, .../values, .../<state>
                  or ValueTable}; RowTables of some slots may share a RowStore

Slots are independent: calls for different slots may run in parallel, unless they share a
store, and calls for one slot one at a time. `create` alone changes which slots there are:
nothing else may run then.

Pure.
"""

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
import torch

from paceline.config import Combine
from paceline.errors import UsageError
from paceline.messages.shared import Block, Hyper, PartPlan, PartSpec
from paceline.params.blocks import dtype_bytes
from paceline.params.bundle import MOST_BYTES, Bundle, bundled
from paceline.params.dense import OptimizeBlock
from paceline.params.guarding import why_not_beside, why_not_guarded
from paceline.params.rows import Array, RowSnapshot, RowStore, RowTable, ValueTable
from paceline.params.sparse import RowChanges, SparseGradient

Bytes = bytes | bytearray | memoryview | np.ndarray[Any, np.dtype[Any]]
Memory = np.ndarray[Any, np.dtype[np.uint8]]
Table = RowTable | ValueTable

_TABLE = "table/"
_STATE = "state/"


@final
class SlotSnapshot:
    """All that a slot holds as of one moment, while updates go on.

    Dense values and optimizer state are copied when it is made; rows follow page by page.
    """

    def __init__(
        self, dense: Mapping[str, torch.Tensor], rows: Mapping[str, RowSnapshot]
    ) -> None:
        """Hold copies of dense tensors by name, and rows by the front of their names."""
        self._dense = dict(dense)
        self._rows = dict(rows)

    def copy_some(self, max_pages: int) -> bool:
        """Copy the next pages of rows, so many at most of each table; whether all are."""
        return all(rows.copy_some(max_pages) for rows in self._rows.values())

    def tensors(self) -> dict[str, torch.Tensor]:
        """What `ParameterShard.export` would have said at the moment; all is copied."""
        rows = {
            f"{front}/{column}": torch.from_numpy(array)
            for front, snapshot in self._rows.items()
            for column, array in snapshot.arrays().items()
        }
        return {**self._dense, **rows}


@final
class ParameterShard:
    """The dense blocks and rows, of all parts, that are placed on one server.

    Attributes:
        blocks: ``{dense slot: optimize block}``; only `create` adds to it.
        rows: ``{row slot: {table name: table}}``, likewise.
        bundles: ``{dense slot: the bundle that it steps with}``, likewise.
    """

    def __init__(self) -> None:
        self._plans: dict[int, PartPlan] = {}  # {part: plan}
        self._part: dict[int, int] = {}  # {slot: part}
        self.blocks: dict[int, OptimizeBlock] = {}
        self._changes: dict[int, RowChanges] = {}  # {dense slot of sparse gradients: when}
        self.rows: dict[int, dict[str, Table]] = {}
        self.bundles: dict[int, Bundle] = {}

    def create(
        self,
        plan: PartPlan,
        server: str,
        seed: int,
        memory: Callable[[int], Memory | None] = lambda _: None,
        bundle_bytes: int = MOST_BYTES,
        leads: Mapping[int, int] = {},
    ) -> None:
        """Make the slots of a part that the plan places on ``server``.

        Dense values are zeros until `upload`; rows are made when they are touched, as
        ``seed`` decides. The same plan again changes nothing. ``memory`` says where a
        dense slot's values are to lie, zeroed; None where that does not matter. So many
        bytes of blocks step together, and row slots whose ``leads`` are the same.

        Raises:
            UsageError: the part has another plan already, or an optimizer or dtype that
                no server knows, or rows that cannot be hogwild; nothing has been changed.
        """
        part = plan.spec.part
        reason = why_not_beside(plan.spec) or why_not_guarded(plan.spec)
        if reason is not None:
            raise UsageError(f"part {part}: {reason}")
        if part in self._plans:
            if self._plans[part] != plan:
                raise UsageError(f"part {part} lies here already, by another plan")
            return
        here = {slot for slot, holder in plan.placement.items() if holder == server}
        dense = {
            block.slot: _optimize_block(plan.spec, block, memory(block.slot))
            for block in plan.blocks
            if block.slot in here
        }
        row_slots = range(plan.first_row_slot, plan.first_row_slot + plan.num_row_slots)
        stores: dict[tuple[int, str], RowStore] = {}
        rows: dict[int, dict[str, Table]] = {}
        for number, slot in enumerate(row_slots):
            if slot in here:
                tables: dict[str, Table] = {}
                rows[slot] = tables
                for spec in plan.spec.tables:
                    if isinstance(spec.optimizer, Combine):
                        tables[spec.name] = ValueTable(spec, seed, number, len(row_slots))
                        continue
                    key = leads.get(slot, slot), spec.name
                    store = stores.get(key) or stores.setdefault(key, RowStore(spec, seed))
                    tables[spec.name] = RowTable(spec, seed, slot, store)
        self._plans[part] = plan
        self._part |= dict.fromkeys((*dense, *rows), part)
        self.blocks |= dense
        self._changes |= {
            slot: RowChanges(len(block.values))
            for slot, block in dense.items()
            if block.values.ndim == 2
        }
        self.rows |= rows
        groups = {b.slot: plan.spec.parameters[b.parameter].group for b in plan.blocks}
        for bundle in bundled(dense, groups, bundle_bytes):
            self.bundles |= dict.fromkeys(bundle.blocks, bundle)

    def slots(self) -> tuple[int, ...]:
        """All slots of this server, ascending."""
        return tuple(sorted(self._part))

    def changes(self, slot: int) -> RowChanges | None:
        """When the rows of a dense slot changed; None if its gradients are dense."""
        return self._changes.get(slot)

    def apply_sparse(self, slot: int, gradient: SparseGradient, hyper: Hyper) -> None:
        """Take one step on rows of a slot that has `changes`; without any it counts too."""
        block = self.blocks[slot]
        block.apply(gradient.as_torch(len(block.values)), hyper)
        self._changes[slot].note(gradient.rows)

    def upload(self, slot: int, values: Bytes) -> None:
        """Set the values of a dense slot, or of one of a dense table of the user's own.

        They are copied, of the block's own dtype and byte order; optimizer state stays.

        Raises:
            UsageError: it is another number of bytes.
        """
        if slot in self.rows:
            [table] = self.rows[slot].values()
            assert isinstance(table, ValueTable), "rows of embeddings begin by themselves"
            flat = np.frombuffer(values, np.uint8).view(table.dtype)
            table.upload(flat.reshape(-1, table.dim))
            return
        # Bytes, not elements: NumPy has no bfloat16.
        target = self.blocks[slot].values.view(-1).view(torch.uint8).numpy()
        source = np.frombuffer(values, np.uint8)
        if len(source) != len(target):
            raise UsageError(
                f"slot {slot}: expected {len(target)} bytes of values, got {len(source)}"
            )
        target[:] = source
        self._note_all(slot)

    def export(self, slot: int) -> dict[str, torch.Tensor]:
        """A copy of all that a slot holds, as named tensors; see the module's table."""
        if slot in self.blocks:
            block = self.blocks[slot]
            state = {f"{_STATE}{name}": t.clone() for name, t in block.state().items()}
            return {"values": block.values.clone(), **state}
        if slot in self.rows:
            return {
                f"{_TABLE}{name}/{column}": torch.from_numpy(array)
                for name, table in sorted(self.rows[slot].items())
                for column, array in table.export().items()
            }
        raise self._unknown(slot)

    def pin(self, slot: int) -> SlotSnapshot:
        """Hold this moment of a slot: dense tensors are copied, rows not yet.

        One at a time; `unpin` must follow.

        Raises:
            UsageError: this server has no such slot.
        """
        if slot in self.blocks:
            return SlotSnapshot(self.export(slot), {})
        if slot in self.rows:
            tables = sorted(self.rows[slot].items())
            rows = {f"{_TABLE}{name}": table.snapshot() for name, table in tables}
            return SlotSnapshot({}, rows)
        raise self._unknown(slot)

    def drop_state(self, slot: int) -> None:
        """Let the state of a dense slot's optimizer go."""
        self.blocks[slot].load({})
        self.bundles[slot].forget()

    def unpin(self, slot: int) -> None:
        """Let the slot's snapshot go."""
        for table in self.rows.get(slot, {}).values():
            table.release()

    def load(self, slot: int, tensors: Mapping[str, torch.Tensor]) -> None:
        """Replace all that a slot holds by what `export` returned; it goes on identically.

        The tensors are copied.

        Raises:
            UsageError: no such slot, or the tensors are not those of this slot's plan.
        """
        if slot in self.blocks:
            self._load_dense(slot, tensors)
        elif slot in self.rows:
            self._load_rows(slot, tensors)
        else:
            raise self._unknown(slot)

    def _load_dense(self, slot: int, tensors: Mapping[str, torch.Tensor]) -> None:
        block = self.blocks[slot]
        values = tensors.get("values")
        if (
            values is None
            or values.shape != block.values.shape
            or values.dtype != block.values.dtype
        ):
            raise UsageError(
                f"slot {slot}: expected values of {_described(block.values)}, "
                f"got {_described(values)}"
            )
        block.load(
            {
                name.removeprefix(_STATE): tensor
                for name, tensor in tensors.items()
                if name.startswith(_STATE)
            }
        )
        block.values.copy_(values)
        self.bundles[slot].forget()
        self._note_all(slot)

    def _load_rows(self, slot: int, tensors: Mapping[str, torch.Tensor]) -> None:
        tables: dict[str, dict[str, Array]] = {name: {} for name in self.rows[slot]}
        for path, tensor in tensors.items():
            # From the right: a table's name may hold slashes, a column's does not.
            name, _, column = path.removeprefix(_TABLE).rpartition("/")
            if name not in tables:
                raise UsageError(
                    f"slot {slot}: expected rows of the tables {sorted(tables)}, "
                    f"got {path!r}"
                )
            tables[name][column] = tensor.numpy()
        for name, arrays in tables.items():
            self.rows[slot][name].load(arrays)

    def _note_all(self, slot: int) -> None:
        if slot in self._changes:
            self._changes[slot].note_all()

    def _unknown(self, slot: int) -> UsageError:
        return UsageError(
            f"expected a slot of this server ({_listed(self._part)}), got {slot}"
        )


def bare(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What `ParameterShard.export` says of a slot, without a dense optimizer's state."""
    return {n: tensor for n, tensor in tensors.items() if not n.startswith(_STATE)}


def _optimize_block(spec: PartSpec, block: Block, memory: Memory | None) -> OptimizeBlock:
    parameter = spec.parameters[block.parameter]
    if spec.optimizer is None:
        raise UsageError(
            f"part {spec.part} has the dense parameter {parameter.names[0]!r} but no "
            f"optimizer: share the model with one"
        )
    dtype_bytes(parameter.dtype)  # refuses what no optimizer steps on
    dtype: torch.dtype = getattr(torch, parameter.dtype)
    if memory is None:
        values = torch.zeros(block.stop - block.start, dtype=dtype)
    else:
        values = torch.from_numpy(memory).view(dtype)
    if parameter.has_sparse_gradients:
        values = values.view(-1, parameter.shape[1])
    hyper = spec.optimizer.groups[parameter.group]
    return OptimizeBlock(values, spec.optimizer.kind, hyper)


def _listed(slots: Mapping[int, object]) -> str:
    return ", ".join(map(str, sorted(slots))) or "there is none"


def _described(tensor: torch.Tensor | None) -> str:
    return "nothing" if tensor is None else f"{tuple(tensor.shape)} {tensor.dtype}"

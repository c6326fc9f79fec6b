"""What one rank has for its trainer's pushes, and how it travels to the leader.

::

    Offered   which parameters and tables have gradients, from how many records
    buffers   gradients that have rows: row numbers or ids, and values

Dense gradients go another way (`paceline.trainer.group.collectives`).

Pure.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, final

import numpy as np
import torch

from paceline.messages import PartPlan
from paceline.trainer.encoding import byte_array
from paceline.trainer.group.wire import Offered
from paceline.trainer.rows.routing import RowGradient, merge, route_ids
from paceline.trainer.tensors import Gradients, PartNumbers, coalesced
from paceline.transport.frames import Buffer


@final
class OwnShare:
    """The batches of one rank that wait for a step, or for a push, by part."""

    def __init__(self) -> None:
        """None wait."""
        self._records: dict[int, int] = {}  # {part: records since its last push}
        self._waiting: set[int] = set()  # parts that have not stepped since the last batch

    def deliver(self, parts: Sequence[int], records: int) -> None:
        """This rank has a batch."""
        for part in parts:
            self._records[part] = self._records.get(part, 0) + records
            self._waiting.add(part)

    def records(self, part: int) -> int:
        """Records whose gradients the next push of a part holds."""
        return self._records.get(part, 0)

    def has_batch(self, part: int) -> bool:
        """Whether a batch waits for a step of the part."""
        return part in self._waiting

    def stepped(self, part: int, *, is_kept: bool) -> None:
        """A step of a part is over."""
        self._waiting.discard(part)
        if not is_kept:
            self._records.pop(part, None)

    def forget(self) -> None:
        """What was delivered belongs to nothing any more."""
        self._records.clear()
        self._waiting.clear()


class Offer(NamedTuple):
    """An offer as it travels."""

    message: Offered
    buffers: list[Buffer]


def offer(
    gradients: Gradients, plan: PartPlan, records: int, sparse: Collection[int]
) -> Offer:
    """What a rank offers.

    Args:
        gradients: of the rank.
        plan: of their part.
        records: that they were computed from.
        sparse: which parameters have sparse gradients.
    """
    with_rows = [index for index in gradients.dense if index in sparse]
    buffers: list[Buffer] = []
    for index in with_rows:
        found = coalesced(gradients.dense[index])
        buffers += [byte_array(found.rows), byte_array(found.values)]
    for table, recorded in gradients.rows.items():
        merged = merge(table, plan, recorded)
        buffers += [merged.route.ids, merged.gradient.numpy()]
    message = Offered(
        records=records,
        dense=tuple(index for index in gradients.dense if index not in sparse),
        sparse=tuple(with_rows),
        tables=tuple(gradients.rows),
        is_refused=gradients.is_refused,
    )
    return Offer(message, buffers)


class Rows(NamedTuple):
    """What an offer has of gradients with rows."""

    sparse: dict[int, torch.Tensor]
    tables: dict[str, RowGradient]


def rows_of(
    offered: Offered, buffers: Sequence[bytearray], numbers: PartNumbers, plan: PartPlan
) -> Rows:
    """Read the buffers of an offer."""
    pairs = _pairs(buffers)
    sparse = {}
    for index in offered.sparse:
        ids, data = next(pairs)
        parameter = numbers.parameters[index]
        values = torch.frombuffer(data, dtype=parameter.dtype) if data else torch.empty(0)
        values = values.to(parameter.dtype).view(len(ids), parameter.shape[1])
        sparse[index] = torch.sparse_coo_tensor(
            torch.from_numpy(ids)[None],
            values,
            parameter.shape,
            check_invariants=False,  # the rows were coalesced where they come from
        )
    tables = {}
    dims = {table.name: table.dim for table in plan.spec.tables}
    for name in offered.tables:
        ids, data = next(pairs)
        gradient = np.frombuffer(data, np.float32).reshape(len(ids), dims[name])
        route, inverse = route_ids(name, plan, ids)
        ordered = np.empty_like(gradient)
        ordered[inverse] = gradient
        tables[name] = RowGradient(route, torch.from_numpy(ordered))
    return Rows(sparse, tables)


def _pairs(
    buffers: Sequence[bytearray],
) -> Iterator[tuple["np.ndarray[tuple[int], np.dtype[np.int64]]", bytearray]]:
    for ids, values in zip(buffers[::2], buffers[1::2], strict=True):
        yield np.frombuffer(ids, np.int64), values


def weighted(gradients: Gradients, weight: float) -> Gradients:
    """The same times a weight."""
    if weight == 1.0:
        return gradients
    return Gradients(
        {index: gradient * weight for index, gradient in gradients.dense.items()},
        {
            table: [RowGradient(one.route, one.gradient * weight) for one in recorded]
            for table, recorded in gradients.rows.items()
        },
        gradients.is_refused,
    )

"""What each rank works on, what it has for its trainer's pushes, how that travels.

::

    batches of the lease   4 5 6 | 7 8 9 | 10        a task of 11, three ranks
    rank                   0 1 2   0 1 2    0        ranks 1 and 2 wait in the last step

Rank i has the i-th of the next batches; all of them are in one window. Whoever has none
contributes nothing, and waits. Dense gradients go another way
(`paceline.trainer.group.collectives`).

Pure.
"""

from collections.abc import Collection, Sequence
from typing import final

import numpy as np
import torch

from paceline.config import Pace
from paceline.messages.shared import PartPlan
from paceline.pace.policy import weigh
from paceline.trainer.acts import Act
from paceline.trainer.encoding import byte_array
from paceline.trainer.group.wire import Offered, Reduced
from paceline.trainer.protocol import TrainerProtocol
from paceline.trainer.rows.routing import Router, RowGradient, merge
from paceline.trainer.tensors import GatherChoice, Gradients, ModelTensors, coalesced
from paceline.trainer.verdicts import Batch, Flush, Leaving, Over
from paceline.transport.frames import Buffer, ByteArray

Dealt = tuple[Batch, ...] | Flush | Over | Leaving


def deal(protocol: TrainerProtocol, size: int) -> Act[Dealt]:
    """The next batches of a trainer of ``size`` ranks, at least one, or what else to do.

    The first may have to be waited for; the others are those at hand behind it, up to the
    end of the lease, or an edge.
    """
    first = yield from protocol.next_batch()
    if not isinstance(first, Batch):
        return first
    batches = [first]
    while len(batches) < size and protocol.peek() is not None:
        found = yield from protocol.next_batch()
        if not isinstance(found, Batch):
            break  # an edge: it is said again when the window is closed
        batches.append(found)
    return tuple(batches)


def weights(pace: Pace, records: Sequence[int]) -> tuple[float, ...]:
    """The weight of each rank's gradients in those of the trainer, by its records.

    Those of a trainer of its own, in a round of all ranks: ``n_i / N``, or 1 where the
    pace sums. With the trainer's own weight ``N / (all records of the round)`` it comes to
    what it would be if every rank were a trainer.
    """
    total = max(1, sum(records))
    return tuple(weigh(pace, count, total) for count in records)


@final
class OwnShare:
    """The batches of one rank that wait for a step, or for a push, by part."""

    def __init__(self) -> None:
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


def offer(
    numbers: ModelTensors, own: OwnShare, part: int, gathering: GatherChoice
) -> Offered:
    """What a rank has for a push of a part that would gather so."""
    there = numbers.gradients.outline(gathering)
    is_unscaled = gathering.only_fresh and numbers.gradients.has_unscaled()
    return Offered(
        records=own.records(part),
        dense=tuple(there.parameters - numbers.gradients.sparse),
        has_rows=there.has_rows or bool(there.parameters & numbers.gradients.sparse),
        is_refused=gathering.with_step and is_unscaled,
    )


def bring(
    gradients: Gradients, plan: PartPlan, sparse: Collection[int], *, is_finite: bool
) -> tuple[Reduced, list[Buffer]]:
    """Write the gradients with rows that a rank brings.

    ``sparse``: parameters with sparse gradients; ``is_finite``: what it says of its sums.
    """
    with_rows = [index for index in gradients.dense if index in sparse]
    buffers: list[Buffer] = []
    for index in with_rows:
        found = coalesced(gradients.dense[index])
        buffers += [byte_array(found.rows), byte_array(found.values)]
    for table, recorded in gradients.rows.items():
        merged = merge(table, plan, recorded)
        buffers += [merged.route.ids, merged.gradient.numpy()]
    return Reduced(is_finite, tuple(with_rows), tuple(gradients.rows)), buffers


def rows_of(
    brought: Reduced, buffers: Sequence[ByteArray], numbers: ModelTensors, plan: PartPlan
) -> Gradients:
    """Read the gradients with rows that a rank has brought."""
    both = zip(buffers[::2], buffers[1::2], strict=True)
    pairs = ((np.frombuffer(ids, np.int64), values) for ids, values in both)
    sparse = {}
    for index in brought.sparse:
        ids, data = next(pairs)
        parameter = numbers.parameters[index]
        values = (
            torch.frombuffer(data, dtype=parameter.dtype) if len(data) else torch.empty(0)
        )
        values = values.to(parameter.dtype).view(len(ids), parameter.shape[1])
        sparse[index] = torch.sparse_coo_tensor(
            torch.from_numpy(ids)[None],
            values,
            parameter.shape,
            check_invariants=False,  # the rows were coalesced where they come from
        )
    tables = {}
    dims = {table.name: table.dim for table in plan.spec.tables}
    for name in brought.tables:
        ids, data = next(pairs)
        gradient = np.frombuffer(data, np.float32).reshape(len(ids), dims[name])
        route, inverse = Router(name, plan).route(ids)
        ordered = np.empty_like(gradient)
        ordered[inverse] = gradient
        tables[name] = [RowGradient(route, torch.from_numpy(ordered))]
    return Gradients(sparse, tables)


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

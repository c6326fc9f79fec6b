"""A pull of a part's dense blocks: copied slot by slot, then put together as one answer.

A block that its reader does not know is copied to where the answer is sent from, perhaps
the room that the reader has kept. How much is sent of one that it knows turns out in the
slot's turn, and has memory of its own: the rows that the reader lacks, or all of them if
that is less. Copy, rows and count are of one moment.

Pure: `copy` runs one at a time per slot, slots in parallel; `answer` after the last.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import numpy as np
import torch

from paceline.messages import PartReport, Pulled, ValuesPlace
from paceline.params.shard import ParameterShard
from paceline.server.contents import Bytes

_ROW_NUMBER_BYTES = 8

Array = np.ndarray[Any, np.dtype[Any]]


class _Copy(NamedTuple):
    """A slot's numbers; ``rows`` is None if they are the whole block."""

    values: Bytes
    rows: Array | None = None
    update: int | None = None  # of a block with sparse gradients


@final
class BlockReads:
    """One reader's copies."""

    def __init__(
        self,
        shard: ParameterShard,
        unknown: Mapping[int, Bytes],
        known: Mapping[int, int],
    ) -> None:
        """Nothing is copied yet.

        Args:
            shard: holds the blocks.
            unknown: ``{slot: place}`` of slots of which the reader needs all; each place
                has the block's bytes, and is written in the slot's turn.
            known: ``{slot: update}``, at which the reader knows the others, all with
                sparse gradients. Both are ascending.
        """
        self.slots = (*unknown, *known)
        self._shard, self._unknown, self._known = shard, unknown, known
        self._copies: dict[int, _Copy] = {}  # {slot: copy}; each slot's own turn writes

    def copy(self, slot: int) -> None:
        """Copy what the reader needs of a slot, as it is now."""
        values, changes = self._shard.dense(slot).values, self._shard.changes(slot)
        if slot in self._unknown:
            np.copyto(self._unknown[slot], _bytes(values))
            count = None if changes is None else changes.count
            self._copies[slot] = _Copy(self._unknown[slot], None, count)
            return
        assert changes is not None, f"slot {slot} is known, and changes as a whole"
        rows = changes.since(self._known[slot])
        row_bytes = values.shape[1] * values.element_size()
        if rows is None or len(rows) * (_ROW_NUMBER_BYTES + row_bytes) >= values.nbytes:
            self._copies[slot] = _Copy(_bytes(values.clone()), None, changes.count)
        else:
            found = _bytes(values.index_select(0, rows))
            self._copies[slot] = _Copy(found, rows.numpy(), changes.count)

    def answer(
        self, at: PartReport, place: ValuesPlace | None = None
    ) -> tuple[Pulled, list[Array]]:
        """All copies as a message, with its buffers.

        Args:
            at: how the part stood.
            place: where the reader may read by itself the next time.
        """
        copies = [(slot, self._copies[slot]) for slot in self.slots]
        pulled = Pulled(
            slots=tuple(slot for slot, copy in copies if copy.rows is None),
            round=at.applied_round,
            changed=tuple(slot for slot, copy in copies if copy.rows is not None),
            updates={s: copy.update for s, copy in copies if copy.update is not None},
            place=place,
        )
        buffers: list[Array] = [copy.values for _, copy in copies if copy.rows is None]
        for _, copy in copies:
            if copy.rows is not None:
                buffers += [copy.rows, copy.values]
        return pulled, buffers


def _bytes(values: torch.Tensor) -> Bytes:
    array: Bytes = values.view(-1).view(torch.uint8).numpy()
    return array

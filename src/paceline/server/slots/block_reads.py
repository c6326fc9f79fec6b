"""A pull of a part's dense blocks: copied slot by slot, then put together as one answer.

A block that its reader does not know is copied to where the answer is sent from, perhaps
the room that the reader has kept. How much is sent of one that it knows turns out in the
slot's turn, and has memory of its own: the rows that the reader lacks, or all of them if
that is less. Copy, rows and count are of one moment. Where a part has a codec for values,
copies are coded; the numbers of rows are not.

Pure: `copy` runs one at a time per slot, slots in parallel; `answer` after the last.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import numpy as np
import torch

from paceline.messages.data import Pulled, ValuesPlace
from paceline.messages.server import PartReport
from paceline.params.codecs import Codec
from paceline.params.shard import ParameterShard
from paceline.server.requests.contents import Bytes

_ROW_NUMBER_BYTES = 8

Array = np.ndarray[Any, np.dtype[Any]]


class _Copy(NamedTuple):
    """A slot's numbers; ``rows`` is None if they are the whole block."""

    values: Bytes
    plain_bytes: int  # of the same values without a codec
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
        codecs: Mapping[int, Codec],
        is_awaited: Callable[[], bool],
    ) -> None:
        """Nothing is copied yet.

        ``unknown`` are ``{slot: place}`` of slots of which the reader needs all: each place
        has the block's bytes as they travel. ``known`` are ``{slot: update}``, at which it
        knows the others, all with sparse gradients. Both are ascending. ``is_awaited``:
        whether the reader still is there; asked in each slot's turn.
        """
        self.slots = (*unknown, *known)
        self._shard, self._unknown, self._known = shard, unknown, known
        self._codecs, self._is_awaited = codecs, is_awaited
        self._copies: dict[int, _Copy] = {}  # {slot: copy}; each slot's own turn writes

    @property
    def is_whole(self) -> bool:
        """Whether all is copied; not if the reader has gone, who gets no answer then."""
        return len(self._copies) == len(self.slots)

    def copy(self, slot: int) -> None:
        """Copy what the reader needs of a slot, as it is now, if it still is there."""
        if not self._is_awaited():
            return
        values, changes = self._shard.blocks[slot].values, self._shard.changes(slot)
        if slot in self._unknown:
            self._write(slot, values, self._unknown[slot])
            count = None if changes is None else changes.count
            place = self._unknown[slot]
            self._copies[slot] = _Copy(place, values.nbytes, None, count)
            return
        assert changes is not None, f"slot {slot} is known, and changes as a whole"
        rows = changes.since(self._known[slot])
        whole_bytes = self._num_bytes(slot, values)
        row_bytes = whole_bytes // len(values)
        if rows is None or len(rows) * (_ROW_NUMBER_BYTES + row_bytes) >= whole_bytes:
            whole = self._copied(slot, values)
            self._copies[slot] = _Copy(whole, values.nbytes, None, changes.count)
        else:
            found = values.index_select(0, rows)
            copied = self._copied(slot, found)
            self._copies[slot] = _Copy(copied, found.nbytes, rows.numpy(), changes.count)

    def answer(
        self, at: PartReport, place: ValuesPlace | None = None
    ) -> tuple[Pulled, list[Array]]:
        """All copies of a part that stood so as a message, with its buffers.

        ``place``: where the reader may read by itself the next time.
        """
        copies = [(slot, self._copies[slot]) for slot in self.slots]
        pulled = Pulled(
            slots=tuple(slot for slot, copy in copies if copy.rows is None),
            round=at.applied_round,
            changed=tuple(slot for slot, copy in copies if copy.rows is not None),
            updates={s: copy.update for s, copy in copies if copy.update is not None},
            place=place,
            version=at.version,
        )
        buffers: list[Array] = [copy.values for _, copy in copies if copy.rows is None]
        for _, copy in copies:
            if copy.rows is not None:
                buffers += [copy.rows, copy.values]
        return pulled, buffers

    def count_bytes(self) -> tuple[int, int]:
        """Of all values: without a codec, and as they travel."""
        copies = self._copies.values()
        plain_bytes = sum(copy.plain_bytes for copy in copies)
        return plain_bytes, sum(copy.values.nbytes for copy in copies)

    def _num_bytes(self, slot: int, values: torch.Tensor) -> int:
        codec = self._codecs.get(slot)
        return values.nbytes if codec is None else codec.coded_bytes(values.numel())

    def _write(self, slot: int, values: torch.Tensor, place: Bytes) -> None:
        codec = self._codecs.get(slot)
        if codec is None:
            np.copyto(place, _bytes(values))
        else:
            codec.encode(values.view(-1).numpy(), place)

    def _copied(self, slot: int, values: torch.Tensor) -> Bytes:
        """The values as they travel, in memory of their own."""
        place: Bytes = np.empty(self._num_bytes(slot, values), np.uint8)
        self._write(slot, values, place)
        return place


def _bytes(values: torch.Tensor) -> Bytes:
    array: Bytes = values.view(-1).view(torch.uint8).numpy()
    return array

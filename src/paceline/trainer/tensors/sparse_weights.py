"""Sparse gradients of weights on their way out, changed rows on their way in.

::

    p.grad, uncoalesced --coalesced--> rows 1 4 | 7     cut by blocks, counted from each
                                                        block's first row
    Pull(known)  -->  Pulled(changed)  -->  rows into the weight, in place

What a trainer knows of a block is the count of its updates that the server said with the
last values that have landed. Whoever is somebody else by now (another incarnation, another
timeline) knows nothing, and gets all rows.

Values that are coded land beside, whole blocks too, and are decoded when all are there.

Called by the thread of the user's loop; landings write from whichever thread receives.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, final

import msgspec
import numpy as np
import torch

from paceline.messages.data import Pull, Pulled
from paceline.messages.shared import Block, Message, PartPlan
from paceline.params.blocks import dtype_bytes
from paceline.params.codecs import Codec, Float32s, codec_of, codes_blocks_of, value_codec
from paceline.params.sparse import Int64s, SparseGradient
from paceline.trainer.client import Payload
from paceline.trainer.encoding import PartMemory, on_cpu
from paceline.transport.frames import ByteArray, WritableBuffer

_ROW_NUMBER_BYTES = 8


def sparse_on_cpu(gradient: torch.Tensor) -> torch.Tensor:
    """A gradient of a weight (rows, dim) with row numbers for indices, on the CPU.

    A dense one (the weight is used by more than embeddings) has the rows that are not zero.
    """
    if gradient.layout is torch.sparse_coo and gradient.sparse_dim() == 1:
        return gradient.detach().cpu()
    return on_cpu(gradient).to_sparse(1)


def coalesced(gradient: torch.Tensor) -> SparseGradient:
    """Its rows, those of equal number summed as torch's own optimizers sum them."""
    found = gradient.coalesce()
    return SparseGradient(found.indices()[0].contiguous(), found.values().contiguous())


def cut_rows(gradient: SparseGradient, block: Block, dim: int) -> SparseGradient:
    """The rows that lie in a block, counted from its first."""
    first, stop = block.start // dim, block.stop // dim
    low, high = torch.searchsorted(gradient.rows, torch.tensor([first, stop])).tolist()
    return SparseGradient(gradient.rows[low:high] - first, gradient.values[low:high])


class _Arriving(NamedTuple):
    """Values of a slot as they come from the wire; ``rows`` is None if they are all."""

    slot: int
    rows: Int64s | None
    values: ByteArray


@final
class RowPulls:
    """What one trainer knows of a part's blocks with sparse gradients."""

    def __init__(self, memory: PartMemory, landed: Callable[[], None]) -> None:
        self._memory, self._landed = memory, landed
        self._blocks: dict[int, Block] = {}  # {slot: block}, of all blocks
        self._bytes: dict[str, dict[int, int]] = {}  # {server: {slot: bytes of its block}}
        self._codecs: dict[int, Codec] = {}  # {slot: codec of its values}
        self._reader: tuple[int, int] | None = None  # (incarnation, timeline)
        self._known: dict[int, int] = {}  # {slot: update}
        self._arriving: dict[str, list[_Arriving]] = {}  # {server: rows}

    def follow(self, plan: PartPlan) -> None:
        """The part lies as this plan says; values are known of none."""
        self._blocks = {block.slot: block for block in plan.blocks}
        self._known, self._bytes, self._codecs = {}, {}, {}
        codec = value_codec(codec_of(plan))
        for slot, block in sorted(self._blocks.items()):
            spec = plan.spec.parameters[block.parameter]
            size = (block.stop - block.start) * dtype_bytes(spec.dtype)
            if codec is not None and codes_blocks_of(spec.dtype):
                self._codecs[slot] = codec
                size = codec.coded_bytes(block.stop - block.start)
            self._bytes.setdefault(plan.placement[slot], {})[slot] = size

    @property
    def are_coded(self) -> bool:
        """Whether values travel by a codec, so that all trainers have them so."""
        return bool(self._codecs)

    def payload(self, server: str, pull: Pull) -> Payload:
        """The question, with where its answer goes."""
        question, sizes = self.ask(server, pull)
        land, landed = partial(self.place, server), partial(self.landed, server)
        return Payload(question, (), land, sizes, landed=landed)

    def ask(self, server: str, pull: Pull) -> tuple[Pull, list[int]]:
        """The same question, for no more than what is not known, and room for the answer.

        Bytes: of each block that is not known, which come as a whole, then of those that
        are, of which no more than that comes.
        """
        self._arriving.pop(server, None)  # what has not landed whole is no answer
        reader = (pull.incarnation, pull.timeline)

        if reader != self._reader:
            self._reader, self._known = reader, {}
        here = self._bytes.get(server, {})
        known = {slot: self._known[slot] for slot in here if slot in self._known}
        sizes = [here[slot] for slot in sorted(here, key=lambda slot: slot in known)]
        return (msgspec.structs.replace(pull, known=known) if known else pull), sizes

    def place(
        self, server: str, pulled: msgspec.Struct, sizes: Sequence[int]
    ) -> list[WritableBuffer]:
        """Where an answer's buffers land: whole blocks in place, rows beside them."""
        assert isinstance(pulled, Pulled)
        self._landed()
        arriving: list[_Arriving] = []
        places: list[WritableBuffer] = []
        for slot, size in zip(pulled.slots, sizes, strict=False):
            block = self._blocks[slot]
            if slot not in self._codecs:
                places.append(self._memory[block.parameter].place(block))
                continue
            arriving.append(_Arriving(slot, None, np.empty(size, np.uint8)))
            places.append(arriving[-1].values)
        coming = sizes[len(pulled.slots) :]
        for slot, row_bytes, value_bytes in zip(
            pulled.changed, coming[::2], coming[1::2], strict=True
        ):
            rows = np.empty(row_bytes // _ROW_NUMBER_BYTES, np.int64)
            arriving.append(_Arriving(slot, rows, np.empty(value_bytes, np.uint8)))
            places += [rows, arriving[-1].values]
        self._arriving[server] = arriving
        return places

    def landed(self, server: str, pulled: Message) -> Message:
        """All buffers of an answer are here: rows go home, and what is known grows."""
        if not isinstance(pulled, Pulled):
            return pulled
        for slot, rows, values in self._arriving.pop(server, ()):
            block, codec = self._blocks[slot], self._codecs.get(slot)
            memory = self._memory[block.parameter]
            if rows is None:
                assert codec is not None, f"slot {slot} was to land in place"
                codec.decode(values, memory.place(block).view(np.float32))
            else:
                plain = values if codec is None else _decoded(codec, values)
                memory.put_rows(block, rows, plain)
        self._known |= pulled.updates
        return pulled


def _decoded(codec: Codec, coded: ByteArray) -> ByteArray:
    """Values of rows: codecs of values take each element alone."""
    plain: Float32s = np.empty(coded.nbytes // codec.coded_bytes(1), np.float32)
    codec.decode(coded, plain)
    return plain.view(np.uint8)

"""The gradients of one part on their way into a codec, and what a codec leaves out.

::

    gradient of a block + what was left out of it --encode--> sent
                                             `--less what is sent--> left out, next time

A push is coded once, when it is held ready: whoever asks again sends the very same bytes.
From the first time that it is sent, what it leaves out is what waits; one that is never
sent changes nothing. What waits belongs to one membership of the trainer. It is kept from
loop to loop, and goes with the trainer: whoever leaves, dies or returns to a cut takes it
along. A push that a server drops as a duplicate has taken its share along, too.

Called by the thread of the user's loop.
"""

import math
from collections.abc import Iterable, Mapping
from typing import final

import numpy as np
import torch

from paceline.messages.shared import Block, PartPlan
from paceline.params.codecs import Codec, Float32s, codec_of, codes_blocks_of
from paceline.trainer.encoding.tensor_bytes import byte_array, cut
from paceline.transport.frames import ByteArray

_FLOAT_BYTES = 4


@final
class GradientCoding:
    """Codes the gradients of one part."""

    def __init__(self) -> None:
        self._plan: PartPlan | None = None
        self._codec: Codec | None = None
        self._coded: frozenset[int] = frozenset()  # parameters whose dtype is coded
        self._left_out: dict[int, Float32s] = {}  # {slot: of its block}
        self._ready: dict[int, Float32s] = {}  # {slot: the same, once the push is sent}

    def follow(self, plan: PartPlan) -> None:
        """The part lies as this plan says; what another codec has left out is dropped."""
        last = self._plan
        if plan is last:
            return
        stays = last is not None and _cut_and_codec(last) == _cut_and_codec(plan)
        self._plan, self._codec = plan, codec_of(plan)
        parameters = enumerate(plan.spec.parameters)
        self._coded = frozenset(
            i for i, spec in parameters if self._codec and codes_blocks_of(spec.dtype)
        )
        if not stays:
            self.forget()

    def forget(self) -> None:
        """What was left out belongs to an abandoned future."""
        self._left_out, self._ready = {}, {}

    def fits(self, gradients: Iterable[torch.Tensor]) -> bool:
        """Whether every element can be coded; those that are not finite aside."""
        if self._codec is None or self._codec.limit == math.inf:
            return True
        for gradient in gradients:
            values = gradient._values() if gradient.is_sparse else gradient
            if values.dtype is torch.float32 and values.numel():
                least, most = torch.aminmax(values)
                if max(-float(least), float(most)) >= self._codec.limit:
                    return False
        return True

    def codes(self, parameter: int) -> bool:
        """Whether gradients of a parameter are coded."""
        return parameter in self._coded

    def code_blocks(self, gradients: Mapping[int, ByteArray]) -> dict[int, ByteArray]:
        """Dense gradients ``{parameter: all of it}`` as they travel, when `sent` says so.

        ``{slot: code}``, in memory of its own, of blocks that are coded.
        """
        self._ready = {}
        if self._codec is None or self._plan is None:
            return {}
        return {
            block.slot: self._code(self._codec, block, gradients[block.parameter])
            for block in self._plan.blocks
            if block.parameter in self._coded and block.parameter in gradients
        }

    def sent(self) -> None:
        """What was coded last is on its way, perhaps again."""
        self._left_out |= self._ready
        self._ready = {}

    def code_rows(self, gradients: torch.Tensor) -> ByteArray:
        """Gradients of rows, (rows, dim), as they travel."""
        codec = self._codec
        is_coded = codec is not None and codec.codes_rows
        if codec is None or not is_coded or gradients.dtype is not torch.float32:
            return byte_array(gradients)
        coded = np.empty(codec.coded_row_bytes(*gradients.shape), np.uint8)
        codec.encode_rows(gradients.detach().numpy(), coded)
        return coded

    def _code(self, codec: Codec, block: Block, gradient: ByteArray) -> ByteArray:
        values: Float32s = cut(gradient, block, _FLOAT_BYTES).view(np.float32)
        if codec.keeps_rest:
            values = self._with_left_out(block.slot, values)
        coded = np.empty(codec.coded_bytes(values.size), np.uint8)
        codec.encode(values, coded)
        if codec.keeps_rest:
            sent = np.empty_like(values)
            codec.decode(coded, sent)
            values -= sent
            self._ready[block.slot] = values
        return coded

    def _with_left_out(self, slot: int, gradient: Float32s) -> Float32s:
        """A gradient and what was left out of those before, in new memory."""
        left_out = self._left_out.get(slot)
        if left_out is None:
            return gradient.copy()
        with np.errstate(over="ignore"):
            total: Float32s = gradient + left_out
        # Near the end of float32's range two finite ones may have no finite sum.
        return total if bool(np.isfinite(total).all()) else gradient.copy()


def _cut_and_codec(plan: PartPlan) -> tuple[object, ...]:
    """All that what is left out depends on."""
    return plan.blocks, plan.spec.pace.codec

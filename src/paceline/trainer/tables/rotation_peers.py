"""Blocks that travel from trainer to trainer, beside their way home.

::

    a cell is over     its rows go home, and a copy stays here for whoever is next
    a cell is leased   the lease says who has left its block, if that is known; its copy is
                       asked for, and what does not come lies at home

A copy is named by the token of the lease under which it was made: it is what home has only
as long as the coordinator says so.

Waits: `PeerBlocks.wait_rows`, for another trainer, a little. Any thread may call.
"""

import logging
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import msgspec
import numpy as np

from paceline.errors import PacelineError
from paceline.messages.peers import ArraySpec, AskBlock, PeerMessage, Values
from paceline.messages.shared import Lease, Refusal
from paceline.params.rows import Array
from paceline.trainer.peers import PeerLink
from paceline.trainer.protocol import StandingThen
from paceline.transport.frames import ByteArray, WritableBuffer
from paceline.transport.service import Reply

PATIENCE_S = 2.0  # then the block is fetched from home

_log = logging.getLogger("paceline.trainer")


class _Left(NamedTuple):
    block: int
    standing: StandingThen
    rows: Array


@final
class PeerBlocks:
    """Blocks of one table that this trainer has left, and those that others have."""

    def __init__(self, link: PeerLink, part: int, num_kept: int) -> None:
        """Open the door, if there can be one, and keep the last ``num_kept`` blocks."""
        self.num_asked = 0
        self._link, self._part, self._num_kept = link, part, num_kept
        self._lock = threading.Lock()  # guards the field below
        self._left: dict[int, _Left] = {}  # {token: block}
        self._is_open = False
        try:
            link.answer(AskBlock, self._answer)
            link.open()
            self._is_open = True
        except PacelineError as error:
            _log.debug("blocks do not travel between trainers: %s", error)

    def keep(self, token: int, block: int, standing: StandingThen, rows: Array) -> None:
        """A copy of a block, for whoever has it next."""
        if not self._is_open:
            return
        left = _Left(block, standing, rows.copy())
        with self._lock:
            self._left[token] = left
            while len(self._left) > self._num_kept:
                del self._left[next(iter(self._left))]

    def clear(self) -> None:
        """The loop is over: nobody asks any more."""
        with self._lock:
            self._left.clear()

    def wait_rows(self, lease: Lease, block: int, rows: Array) -> bool:
        """Fill ``rows`` (ids, dim) with a leased block; false if it lies at home only."""
        at = lease.block_at
        if at is None or not self._is_open:
            return False
        if at.trainer == self._link.trainer:
            with self._lock:
                mine = self._left.get(at.token)
            if mine is None or mine.block != block:
                return False
            rows[:] = mine.rows
            return True
        ask = AskBlock(
            incarnation=0, timeline=0, to=0, part=self._part, block=block, token=at.token
        )

        def land(reply: msgspec.Struct, sizes: Sequence[int]) -> Sequence[WritableBuffer]:
            is_whole = isinstance(reply, Values) and list(sizes) == [rows.nbytes]
            return [rows] if is_whole else [np.empty(size, np.uint8) for size in sizes]

        try:
            answer = self._link.wait_answer(
                at.trainer, ask, timeout_s=PATIENCE_S, landing=land
            )
        except PacelineError as error:
            _log.debug("block %d of %s comes from home: %s", block, at.trainer, error)
            return False
        wanted = (ArraySpec(rows.shape, rows.dtype.str),)
        if not isinstance(answer.message, Values) or answer.message.arrays != wanted:
            return False
        self.num_asked += 1
        return True

    def _answer(
        self, asker: str, message: PeerMessage, buffers: list[ByteArray], reply: Reply
    ) -> None:
        del buffers
        assert isinstance(message, AskBlock)
        with self._lock:
            left = self._left.get(message.token)
        is_it = (
            left is not None
            and (message.part, message.block) == (self._part, left.block)
            and message.timeline == left.standing.timeline
        )
        if left is None or not is_it:
            text = f"block {message.block} is not here any more, {asker}"
            reply(Refusal(kind="invalid", text=text, timeline=message.timeline))
            return
        spec = ArraySpec(left.rows.shape, left.rows.dtype.str)
        flat: list[Any] = [left.rows.reshape(-1).view(np.uint8)]
        reply(Values(arrays=(spec,)), flat)

"""What a trainer has laid out for the others of an exchange, and who waits for it.

Waits for nothing. Any thread may call; answers are given by whoever lays out or sweeps.
"""

import threading
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from paceline.messages.peers import ArraySpec, AskValues, PeerMessage, Values
from paceline.messages.shared import Refusal, Waiting
from paceline.messages.waits import Wait
from paceline.parking import PARK_S, ParkedQuestion, Parking
from paceline.timing import Clock
from paceline.trainer.peers.reduction import Array, sliced
from paceline.transport.frames import ByteArray
from paceline.transport.service import Reply

MOST_PARKED = 4096


class _Asked(ParkedQuestion, frozen=True):
    """A trainer's question; one of it waits for each stage."""

    message: AskValues
    reply: Reply


@final
class PeerOutbox:
    """The arrays of one exchange at a time, by stage."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards the fields below
        self._exchange = 0
        self._stages: dict[int, tuple[Array, ...]] = {}
        self._parked: Parking[tuple[str, int], _Asked] = Parking(is_looked_at=False)

    def lay_out(self, exchange: int, stage: int, arrays: Sequence[Array]) -> None:
        """Let these be had; they must stay as they are until another exchange's are."""
        with self._lock:
            if exchange != self._exchange:
                self._exchange, self._stages = exchange, {}
            self._stages[stage] = tuple(arrays)
            ready = [
                (key, parked)
                for key, parked in self._parked.asked.items()
                if (parked.message.exchange, parked.message.stage) == (exchange, stage)
            ]
            for key, _ in ready:
                self._parked.take(key)
        for _, parked in ready:
            _hand_out(parked.message, arrays, parked.reply)

    def clear(self) -> None:
        """Nothing is to be had any more: all have what they need."""
        with self._lock:
            self._exchange, self._stages = 0, {}

    def received(
        self, asker: str, message: PeerMessage, buffers: list[ByteArray], reply: Reply
    ) -> None:
        """Another trainer asks: answered now, or when it is laid out, or put off."""
        del buffers
        assert isinstance(message, AskValues)
        key = (asker, message.stage)
        with self._lock:
            is_here = message.exchange == self._exchange and message.stage in self._stages
            arrays = self._stages[message.stage] if is_here else ()
            before = None if is_here else self._parked.take(key)
            if not is_here and len(self._parked.asked) < MOST_PARKED:
                until_s = self._clock.now_s() + PARK_S
                self._parked.park(key, _Asked(message, reply, until_s=until_s))
        if is_here:
            _hand_out(message, arrays, reply)
        elif before is not None:
            before.reply(Waiting(wait=Wait("exchange", "asked anew")))

    def sweep(self) -> None:
        """Answer those who have waited long enough."""
        now = self._clock.now_s()
        with self._lock:
            due = self._parked.due(now)
            for key, _ in due:
                self._parked.take(key)
        for _, one in due:
            wait = Wait("exchange", "it has not come as far in its own loop")
            one.reply(Waiting(wait=wait))


def _hand_out(message: AskValues, arrays: Sequence[Array], reply: Reply) -> None:
    found: list[Array] = list(arrays)
    if message.slice_of is not None:
        index, count = message.slice_of
        if not 0 <= index < count:
            text = f"expected slice 0..{count - 1} of {count}, got {index}"
            reply(Refusal(kind="invalid", text=text, timeline=message.timeline))
            return
        found = sliced(found, index, count)
    specs = tuple(ArraySpec(array.shape, array.dtype.str) for array in found)
    buffers: list[Any] = [array.reshape(-1).view(np.uint8) for array in found]
    reply(Values(arrays=specs), buffers)

"""Carries the state of tracked objects: between the objects, and messages to a server.

The thread of the user's loop calls; landings write from whichever thread receives.

Averages of buffers over trainers, weighted by the records that each has trained.

``x = sum_i n_i x_i / sum_i n_i``, summed in float64 in the order given: buffers that are
equal in float32 or less stay so to the bit, and one alone is taken as it is. Whole numbers
(BatchNorm's ``num_batches_tracked``) are the greatest of all; anything else is the first's.

Pure.
"""

from collections.abc import Sequence
from typing import Any, final

import msgspec
import torch
from torch import Tensor

from paceline.errors import UsageError
from paceline.messages.data import KeepTracked
from paceline.trainer.encoding import decode_state
from paceline.trainer.engine.tracked_objects import Tracker
from paceline.trainer.protocol import Tracking

States = dict[str, dict[str, Tensor]]  # {name of a tracked object: {buffer: value}}


def average_states(encoded: Sequence[bytes], weights: Sequence[int]) -> States:
    """The average of encoded states of averaged objects; empty if there are none.

    Args:
        encoded: what `Tracker.encode_averaged` made, in several trainers.
        weights: of each, at least 1.

    Raises:
        CheckpointCorrupt: these are no encoded states.
        UsageError: a buffer is of another shape in another trainer, or is not there.
    """
    states: list[Any] = [decode_state(data) for data in encoded]
    if not states:
        return {}
    for state in states[1:]:
        _check_alike(states[0], state)
    return {
        name: {
            buffer: average([state[name][buffer] for state in states], weights)
            for buffer in buffers
        }
        for name, buffers in states[0].items()
    }


def _check_alike(one: States, other: States) -> None:
    """No average makes sense of buffers that trainers have grown apart."""
    for name, buffers in one.items():
        there = other.get(name, {})
        for buffer in sorted(buffers.keys() | there.keys()):
            shapes = [
                tuple(state[buffer].shape) if buffer in state else "none"
                for state in (buffers, there)
            ]
            if shapes[0] != shapes[1]:
                raise UsageError(
                    f"the buffer {buffer!r} ({name}) has the shape {shapes[0]} in one "
                    f"trainer and {shapes[1]} in another when the loop ends, and float "
                    f"buffers are averaged then: give it one size in all trainers, or "
                    f"register it with persistent=False"
                )


def average(values: Sequence[Tensor], weights: Sequence[int]) -> Tensor:
    """One buffer of several trainers, of one shape and dtype; a new tensor."""
    first = values[0]
    if len(values) == 1:
        return first.clone()
    if first.is_floating_point():
        total = torch.zeros_like(first, dtype=torch.float64)
        for value, weight in zip(values, weights, strict=True):
            total += weight * value.double()
        return (total / sum(weights)).to(first.dtype)
    if first.is_complex() or first.dtype is torch.bool:
        return first.clone()
    return torch.stack(list(values)).amax(dim=0)


@final
class TrackedCarrying:
    """States that leave, and states that have come.

    Attributes:
        moves: of the state, up to which all that has come is loaded.
    """

    def __init__(self, tracker: Tracker, state: Tracking) -> None:
        """Carry for these objects; ``state`` says which number they are to have."""
        self._tracker, self._state = tracker, state
        self._landings: dict[int, list[bytearray]] = {}  # {number: where a state landed}
        self._loads = self._buffers = 0
        self.moves = 0

    def encode(self, message: KeepTracked) -> bytes:
        """The state that a message is to bring to a server."""
        if message.buffers_only:
            return self._tracker.encode_averaged()
        states = [bytes(self._landings[share.number][0]) for share in message.average]
        weights = [share.records for share in message.average]
        return self._tracker.encode(averaged=average_states(states, weights))

    def land(
        self, number: int, _message: msgspec.Struct, sizes: Sequence[int]
    ) -> list[bytearray]:
        """Where a state of this number goes."""
        places = [bytearray(size) for size in sizes]
        self._landings[number] = places
        return places

    def load(self) -> None:
        """What has come is what tracked objects are, from the next batch on."""
        state, landings = self._state, self._landings
        self.moves, self._landings = state.moves, {}
        # One that came for a timeline that was left at once is not looked at any more.
        if state.loads != self._loads and state.is_known:
            self._loads = state.loads
            if state.number == 0:
                self._tracker.begin_again()
            else:
                self._tracker.load(bytes(landings[state.number][0]))
        if state.buffers != self._buffers:
            self._buffers = state.buffers
            self._tracker.load_averaged(bytes(landings[state.buffers][0]))

"""Carries the state of tracked objects: between the objects, and messages to a server.

The thread of the user's loop calls; landings write from whichever thread receives.
"""

from collections.abc import Sequence
from typing import final

import msgspec

from paceline.messages import KeepTracked
from paceline.trainer.averaging import average_states
from paceline.trainer.tracker import Tracker
from paceline.trainer.tracking import Tracking


@final
class TrackedCarrying:
    """States that leave, and states that have come."""

    def __init__(self, tracker: Tracker, state: Tracking) -> None:
        """Carry for these objects; ``state`` says which number they are to have."""
        self._tracker, self._state = tracker, state
        self._landings: dict[int, list[bytearray]] = {}  # {number: where a state landed}
        self._loads = self._buffers = 0

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
        self._landings = {}
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

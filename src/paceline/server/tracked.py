"""States of the user's tracked objects: the one that counts, and those that may.

A trainer that was given up may still send its state; so what comes is kept beside the one
that counts until the coordinator, who knows the members, has chosen.

Pure; by the lock of whoever holds it.
"""

from typing import NamedTuple, final

# One a trainer when their buffers are averaged; else a trainer tells the coordinator as
# soon as its state is kept.
MOST_UNCONFIRMED = 1024


class TrackedState(NamedTuple):
    """The state of the user's tracked objects; ``number`` 0: there is none."""

    number: int = 0
    data: bytes = b""


_NONE = TrackedState()


@final
class TrackedStates:
    """All that a server keeps of them.

    Attributes:
        confirmed: the one that counts, and goes into a cut.
    """

    def __init__(self, confirmed: TrackedState = _NONE) -> None:
        """Begin with what lay in a cut."""
        self.confirmed = confirmed
        self._others: dict[int, TrackedState] = {}  # {number: state}, as they came

    def keep(self, state: TrackedState) -> None:
        """A state has come."""
        self._others[state.number] = state
        if len(self._others) > MOST_UNCONFIRMED:
            del self._others[next(iter(self._others))]

    def confirm(self, number: int) -> None:
        """This one counts; what came before it never will."""
        if number not in self._others:
            return
        for other in list(self._others):
            state = self._others.pop(other)
            if other == number:
                self.confirmed = state
                return

    def find(self, number: int) -> TrackedState | None:
        """The state of a number."""
        if self.confirmed.number == number:
            return self.confirmed
        return self._others.get(number)

"""States of the user's tracked objects: the one that counts, and those that may.

A trainer that was given up may still send its state; so what comes is kept beside the one
that counts until the coordinator, who knows the members, has chosen.

Pure; by the lock of whoever holds it.
"""

from typing import NamedTuple, final

MOST_UNCONFIRMED = 64  # a trainer tells the coordinator as soon as its state is kept
MOST_SHARES = 1024  # one a trainer


class TrackedState(NamedTuple):
    """The state of the user's tracked objects; ``number`` 0: there is none."""

    number: int = 0
    data: bytes = b""
    is_average: bool = False


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
        self._shares: dict[int, TrackedState] = {}  # the same

    def keep(self, state: TrackedState, *, is_share: bool = False) -> None:
        """A state has come, or one trainer's share in an average."""
        kept, most = self._others, MOST_UNCONFIRMED
        if is_share:
            kept, most = self._shares, MOST_SHARES
        kept[state.number] = state
        if len(kept) > most:
            del kept[next(iter(kept))]

    def confirm(self, number: int) -> None:
        """This one counts; what came before it never will.

        Shares stay until an average of them counts.
        """
        if number not in self._others:
            return
        for other in list(self._others):
            state = self._others.pop(other)
            if other == number:
                self.confirmed = state
                if state.is_average:
                    self._shares.clear()
                return

    def find(self, number: int) -> TrackedState | None:
        """The state of a number."""
        if self.confirmed.number == number:
            return self.confirmed
        return self._others.get(number) or self._shares.get(number)

"""States of the user's tracked objects: the one that counts, and those that may.

A trainer that was given up may still send its state; so what comes is kept beside the one
that counts until the coordinator, who knows the members, has chosen. Of two trainers'
states, the one that came first may be chosen last. One trainer's are chosen in the order of
their coming, and it sends the next only when the coordinator knows the last: so two of each
are kept.

Pure; by the lock of whoever holds it.
"""

from typing import NamedTuple, final

MOST_KEEPERS = 64  # the coordinator asks one trainer at a time
_OF_EACH = 2
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
        self._others: dict[int, list[TrackedState]] = {}  # {incarnation: as they came}
        self._shares: dict[int, TrackedState] = {}  # {number: share}, as they came

    def keep(self, state: TrackedState, incarnation: int) -> None:
        """A trainer's state has come; again, it changes nothing."""
        kept = [one for one in self._others.pop(incarnation, []) if one != state]
        self._others[incarnation] = [*kept, state][-_OF_EACH:]
        if len(self._others) > MOST_KEEPERS:
            del self._others[next(iter(self._others))]

    def keep_share(self, state: TrackedState) -> None:
        """One trainer's share in an average has come; it stays until one counts."""
        self._shares[state.number] = state
        if len(self._shares) > MOST_SHARES:
            del self._shares[next(iter(self._shares))]

    def confirm(self, number: int) -> None:
        """This one counts; what its trainer sent before never will."""
        for incarnation, states in self._others.items():
            numbers = [state.number for state in states]
            if number in numbers:
                place = numbers.index(number)
                self.confirmed = states[place]
                self._others[incarnation] = states[place + 1 :]
                if self.confirmed.is_average:
                    self._shares.clear()
                return

    def find(self, number: int) -> TrackedState | None:
        """The state of a number."""
        if self.confirmed.number == number:
            return self.confirmed
        others = (state for states in self._others.values() for state in states)
        return next((s for s in others if s.number == number), self._shares.get(number))

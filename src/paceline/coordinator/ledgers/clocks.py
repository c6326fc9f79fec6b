"""Clocks: how many steps each trainer with work has finished, and which is slowest.

A trainer enters at the slowest clock of those that hold a lease, so that nobody waits for
it to catch up; it leaves when it holds none any more: who is dead, done or without work
holds nobody up. Bösen's vector clock has no removal, and one dead worker stops it.

Not durable: trainers say their clocks with every tick, question and beat. Until all who
hold a lease have said theirs to a coordinator that has just started, the slowest is
unknown, and nobody goes on for it.

Pure.
"""

from typing import final

from paceline.coordinator.durable import Queue
from paceline.messages.shared import TrainerClock


@final
class Clocks:
    """The clocks of all trainers, by incarnation."""

    def __init__(self, *, is_whole: bool) -> None:
        """Know none; ``is_whole``: there is none to know."""
        self._clocks: dict[int, TrainerClock] = {}  # {incarnation: clock}
        self._at: dict[int, set[int]] = {}  # {clock: incarnations}
        self._floor = 0  # the slowest that was seen last
        self._is_whole = is_whole
        self.are_told = False  # whether any trainer counts steps for a bound

    def enter(self, incarnation: int, entry: int, queue: Queue) -> tuple[int, int]:
        """A trainer gets a lease, the ``entry``, and held none.

        Returns:
            Its clock, its own if it has only gone from one task to the next, else the
            slowest; and the slowest, as far as it is known.
        """
        slowest = self.slowest(queue)
        if slowest is None:
            slowest = self._floor
        own = self._clocks[incarnation].steps if incarnation in self._clocks else slowest
        self.leave(incarnation)
        self._put(incarnation, TrainerClock(entry, own))
        return own, min(own, slowest)

    def tell(self, incarnation: int, clock: TrainerClock, queue: Queue) -> None:
        """A trainer says its clock; what came late changes nothing."""
        self.are_told = True
        known = self._clocks.get(incarnation)
        if known is None:
            is_news = queue.entry_of(incarnation) == clock.entry
        else:
            is_news = known.entry == clock.entry and known.steps < clock.steps
        if is_news:
            self.leave(incarnation)
            self._put(incarnation, clock)

    def leave(self, incarnation: int) -> None:
        """A trainer is gone."""
        clock = self._clocks.pop(incarnation, None)
        if clock is not None:
            self._at[clock.steps].discard(incarnation)
            if not self._at[clock.steps]:
                del self._at[clock.steps]

    def clear(self) -> None:
        """All leases are void (a return to a cut); who gets one enters anew."""
        self._clocks, self._at = {}, {}
        self._is_whole = True

    def slowest(self, queue: Queue) -> int | None:
        """The least clock of those that hold a lease; None if it is not known."""
        if not self._is_whole:
            known = sum(queue.does_hold(one) for one in self._clocks)
            self._is_whole = known == queue.num_holders()
        if not self._is_whole:
            return None
        for clock in sorted(self._at):
            for one in self._at[clock]:  # mostly the first one does
                if queue.does_hold(one):
                    return clock
        return None

    def drop_idle(self, queue: Queue) -> None:
        """Trainers at the slowest clock that hold no lease leave; see `enter`.

        Not in the middle of a decision: who goes from one task to the next holds none for
        a moment, and keeps its clock.
        """
        while self._at:
            least = min(self._at)
            first = next(iter(self._at[least]))
            if queue.does_hold(first):
                self._floor = max(self._floor, least)
                return
            self.leave(first)

    def slowest_of(self, clock: int) -> tuple[int, ...]:
        """Incarnations at this clock."""
        return tuple(sorted(self._at.get(clock, ())))

    def _put(self, incarnation: int, clock: TrainerClock) -> None:
        self._clocks[incarnation] = clock
        self._at.setdefault(clock.steps, set()).add(incarnation)

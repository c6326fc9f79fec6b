"""Rounds of fragments that a trainer does not stop for.

::

    push, pull -------------> servers hold both
    one batch later           all have prepared: tick
    ``overlap`` batches later the round is waited for, and the values are taken in

Every trainer pushes fragments in the same circle, and a round waits for all: so a trainer
that is at one fragment's round never waits for one that is at another's. Where windows
end early (an edge, no more work) they are pushed in this order, too. Who enters finds its
place by the rounds: the next in turn is the first that has had the fewest.

Pure.
"""

from collections.abc import Iterable
from typing import final

from paceline.messages.trainer import Ticked
from paceline.pace.policy import batches_of_turn
from paceline.trainer.acts import Act, Asking, Post, SendPosted
from paceline.trainer.holdings import Leases, SharedPart
from paceline.trainer.protocol.pushing import (
    Acknowledged,
    Flight,
    collect_push,
    collect_values,
    pull_part,
)
from paceline.trainer.protocol.ticking import TickSender


@final
class Overlapping:
    """Fragments of one trainer that are on their way."""

    def __init__(
        self,
        asking: Asking,
        teller: TickSender,
        leases: Leases,
        parts: dict[int, SharedPart],
        flights: dict[int, Flight],
    ) -> None:
        self._asking, self._teller, self._leases = asking, teller, leases
        self._parts, self._flights = parts, flights
        self._told: dict[int, tuple[Acknowledged, Post]] = {}  # {part: its tick}

    def tell_prepared(self, part: SharedPart) -> Act[None]:
        """All servers have a fragment's window: the coordinator is told, once."""
        number = part.spec.part
        if number in self._told:
            return
        done = yield from collect_push(self._asking, self._flights[number])
        parts = tuple(self._parts)
        acked = self._leases.acked_with(number, done.window, parts)
        self._teller.add(part, done, acked)
        self._asking.clock += 1
        tick = self._teller.tick(part, is_prepared=done.is_prepared, ends_step=True)
        self._told[number] = done, self._teller.post(part, tick)
        yield SendPosted()

    def land(self, part: SharedPart) -> Act[tuple[Ticked, int]]:
        """Wait for a fragment's round, and for the values that it has led to.

        With what was answered: so many leases were worked off with it.
        """
        number, parts = part.spec.part, tuple(self._parts)
        yield from self.tell_prepared(part)
        done, posted = self._told.pop(number)
        ticked = yield from self._teller.collect(posted)
        self._leases.advance(number, done.window)
        tasks_finished = self._leases.drop_complete(parts)
        flight = self._flights[number]
        yield from collect_values(self._asking, part, flight.values, is_current=True)
        if flight.at_round is None:
            yield from pull_part(self._asking, part, flight.servers(), at_round=part.round)
        del self._flights[number]
        part.pulled(part.round)
        part.round += 1
        return ticked, tasks_finished

    def forget(self) -> None:
        """The timeline or the incarnation is gone, and what was on its way with it."""
        self._told.clear()


@final
class FragmentSchedule:
    """Whose turn it is to be pushed, among one trainer's fragments; others have no turn."""

    def __init__(self, parts: dict[int, SharedPart]) -> None:
        self._parts = parts
        self._next = 0  # place in the circle

    def enter(self) -> None:
        """A lease has come, and none was held: parts know their rounds."""
        rounds = [part.round for part in self._circle()]
        self._next = rounds.index(min(rounds)) if rounds else 0

    def pushed(self, part: SharedPart) -> None:
        """A fragment has had its turn."""
        circle = self._circle()
        assert circle[self._next] is part, f"part {part.spec.part} is not next in turn"
        self._next = (self._next + 1) % len(circle)

    def is_due(self, part: SharedPart) -> bool:
        """Whether it is a fragment's turn with the batches delivered so far."""
        circle = self._circle()
        if circle[self._next] is not part:
            return False
        since = min(one.window.num_batches(with_delivered=True) for one in circle)
        return since >= batches_of_turn(part.spec.pace, self._next)

    def has_gone_far(self, part: SharedPart) -> bool:
        """Whether as many batches were taken since a fragment's push as overlap it."""
        since = part.window.num_batches(with_delivered=True)
        return since >= part.rules.round_overlap

    def in_order(self, numbers: Iterable[int]) -> list[int]:
        """Parts in the order in which they step: fragments last, by their turns."""
        circle = [part.spec.part for part in self._circle()]
        turned = circle[self._next :] + circle[: self._next]
        some = list(numbers)
        return [n for n in some if n not in turned] + [n for n in turned if n in some]

    def are_stepped_over(self) -> bool:
        """Whether fragments hold batches, and the user has stepped over all of them."""
        windows = [part.window for part in self._circle()]
        is_open = any(window.is_open() for window in windows)
        return is_open and not any(window.has_delivered() for window in windows)

    def are_alone(self) -> bool:
        """Whether there are no other parts."""
        return all(part.rules.takes_turns for part in self._parts.values())

    def _circle(self) -> list[SharedPart]:
        return [part for _, part in sorted(self._parts.items()) if part.rules.takes_turns]

"""Rounds of fragments that a trainer does not stop for.

::

    push, pull -------------> servers hold both
    one batch later           all have prepared: tick
    ``overlap`` batches later the round is waited for, and the values are taken in

Pure.
"""

from typing import NamedTuple, final

from paceline.messages import StageSpec, Ticked
from paceline.trainer.asking import Act, Asking, Posted
from paceline.trainer.leases import Leases
from paceline.trainer.parts import SharedPart
from paceline.trainer.pushing import (
    Acknowledged,
    Flight,
    collect_push,
    collect_values,
    pull_part,
)
from paceline.trainer.ticking import Teller


class Landed(NamedTuple):
    """A fragment's round is in its values; so many leases were worked off with it."""

    ticked: Ticked
    tasks_finished: int


@final
class Overlapping:
    """Fragments of one trainer that are on their way."""

    def __init__(
        self,
        asking: Asking,
        teller: Teller,
        leases: Leases,
        parts: dict[int, SharedPart],
        flights: dict[int, Flight],
    ) -> None:
        """None is; leases, parts and flights are the trainer's own."""
        self._asking, self._teller, self._leases = asking, teller, leases
        self._parts, self._flights = parts, flights
        self._told: dict[int, tuple[Acknowledged, Posted]] = {}  # {part: its tick}

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
        post = self._teller.posting(tick)
        yield post
        self._teller.goes_on(part)
        self._told[number] = done, post.posted

    def land(self, part: SharedPart, stage: StageSpec) -> Act[Landed]:
        """Wait for a fragment's round, and for the values that it has led to."""
        number, parts = part.spec.part, tuple(self._parts)
        yield from self.tell_prepared(part)
        done, posted = self._told.pop(number)
        ticked = yield from self._teller.collect(part, posted)
        self._leases.advance(number, done.window, parts)
        tasks_finished = self._leases.drop_complete(parts, stage)
        flight = self._flights[number]
        yield from collect_values(self._asking, part, flight.values, is_current=True)
        if flight.at_round is None:
            yield from pull_part(self._asking, part, flight.servers(), at_round=part.round)
        del self._flights[number]
        part.pulled(part.round)
        part.round += 1
        return Landed(ticked, tasks_finished)

    def forget(self) -> None:
        """The timeline or the incarnation is gone, and what was on its way with it."""
        self._told.clear()

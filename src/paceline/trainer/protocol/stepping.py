"""A step's push, from the open window to the values after it.

Fragments of a model are pushed by turns; with an overlap a trainer goes on meanwhile
(`fragments`).

Pure.
"""

from collections.abc import Sequence
from functools import partial
from typing import final

from paceline.errors import Refused, UsageError
from paceline.messages.trainer import Ticked
from paceline.trainer.acts import Abandoned, Act, Asking, SendPosted
from paceline.trainer.holdings import Leases, SharedPart, Writing, hand_back
from paceline.trainer.protocol.exchanging import Collective, exchange_values
from paceline.trainer.protocol.fragments import FragmentSchedule, Overlapping
from paceline.trainer.protocol.pacing import StalenessGate
from paceline.trainer.protocol.pushing import (
    Acknowledged,
    Coming,
    Flight,
    ask_judge,
    close_window,
    collect_push,
    collect_values,
    post_values,
    pull_part,
)
from paceline.trainer.protocol.tables import push_together, under_locks
from paceline.trainer.protocol.ticking import TickSender


@final
class Stepping:
    """Pushes of one trainer, and what is known of them."""

    def __init__(
        self,
        asking: Asking,
        teller: TickSender,
        leases: Leases,
        parts: dict[int, SharedPart],
        marching: StalenessGate,
    ) -> None:
        self.tasks_finished = 0  # leases that this trainer has worked off
        self.turns = FragmentSchedule(parts)  # of the fragments
        # {part: by what the values of its next push travel, if not by servers}.
        self.collectives: dict[int, Collective] = {}
        self._asking, self._teller = asking, teller
        self._leases, self._parts, self._marching = leases, parts, marching
        # {part: its last push}, of those that are on their way.
        self.flights: dict[int, Flight] = {}
        self._overlapping = Overlapping(asking, teller, leases, parts, self.flights)

    def in_order(self, numbers: Sequence[int]) -> Sequence[int]:
        """Parts in the order in which they step: fragments last, by their turns."""
        if any(self._parts[number].rules.takes_turns for number in numbers):
            return self.turns.in_order(numbers)
        return numbers

    def push_due(self, part: SharedPart) -> bool:
        """Whether the pace wants a push of a part now; see `SharedPart.push_due`."""
        at_end = self._leases.is_at_end(part)
        if part.rules.takes_turns:
            return at_end or self.turns.is_due(part)
        return part.push_due(at_end=at_end)

    def push(
        self,
        part: SharedPart,
        servers: tuple[str, ...],
        coming: Coming | None = None,
    ) -> Act[list[Ticked]]:
        """Push a part's open window; values are pulled where the pace wants it.

        Where the pace lets pushes overlap, the push before is waited for instead of this
        one, unless this one ends a task. Of fragments one is on its way at a time. What the
        coordinator has answered, if it was told, is returned.
        """
        # Chosen here, not within an act: every act on the way costs at every reply.
        if part.spec.part in self.collectives:
            return self._exchange(part, servers)
        is_plain = not part.rules.takes_turns and part.writing is None
        if is_plain and part.spec.part not in self.flights:
            return self._push_window(part, servers, coming)
        return self._push(part, servers, coming)

    def _push(
        self,
        part: SharedPart,
        servers: tuple[str, ...],
        coming: Coming | None,
    ) -> Act[list[Ticked]]:
        ticked = yield from self.land(part)
        if part.rules.takes_turns:
            for number in [n for n in self.flights if self._parts[n].rules.takes_turns]:
                ticked += yield from self.land(self._parts[number])
            self.turns.pushed(part)
        if part.writing is not None:
            return ticked + (yield from self._push_step(part, part.writing, servers))
        return ticked + (yield from self._push_window(part, servers, coming))

    def _push_window(
        self,
        part: SharedPart,
        servers: tuple[str, ...],
        coming: Coming | None,
    ) -> Act[list[Ticked]]:
        # Where nothing is waited for, one request to each server costs the least.
        with_push = coming if part.rules.pushes_overlap else None
        judge = part.judge
        leaving = close_window(self._asking, part, servers, with_push)
        if judge is not None:
            left = yield from ask_judge(self._asking, leaving, judge)
            if left is None:
                return (yield from self._train_again())
            leaving = left
        push = self._asking.post(leaving.pushes) if leaving.pushes else None
        at_round = part.round if part.rules.is_sync else 0
        may_read = not part.rules.is_bounded or self._marching.may_read(part)
        is_pulling = part.rules.reads_round or (may_read and part.pull_due(has_pushed=True))
        goes_on = part.rules.round_overlap > 0
        # Questions for other parts' rows would wait behind it.
        is_pulling = is_pulling and not (goes_on and not self.turns.are_alone())
        if part.rules.pushes_overlap or not may_read:
            coming = None
        if is_pulling and part.rules.is_bounded:
            self._marching.reads(part)
        values = yield from post_values(
            self._asking, part, servers, coming, at_round=at_round, with_dense=is_pulling
        )
        pulls_at = at_round if is_pulling else None
        flight = Flight(leaving.message, leaving.refused, push, values, pulls_at)
        goes_on = goes_on or (
            part.rules.pushes_overlap and self._leases.current() is not None
        )
        if goes_on:
            yield SendPosted()
        self.flights[part.spec.part] = flight
        if is_pulling and part.rules.pushes_overlap:
            part.pulled(at_round)  # what is asked for now is due no more
        return [] if goes_on else (yield from self.land(part))

    def _push_step(
        self,
        part: SharedPart,
        writing: Writing,
        servers: tuple[str, ...],
    ) -> Act[list[Ticked]]:
        """Push a part's window, and those beside it, as one step."""
        parts = [*(self._parts[number] for number in writing.beside), part]
        for other in parts[:-1]:
            other.step()
        before = [one.window.copy() for one in parts]
        leaving = [close_window(self._asking, one, servers) for one in parts]
        is_held = len(servers) * len(parts) > 1
        pushes = [
            under_locks(left.pushes, one.writing or writing, is_held=is_held)
            for left, one in zip(leaving, parts, strict=True)
        ]
        try:
            yield from push_together(self._asking, pushes)
        except Refused:
            for one, window in zip(parts, before, strict=True):
                one.undo_step(window)
            raise
        ticked: list[Ticked] = []
        for left, one in zip(leaving, parts, strict=True):
            if one.rules.is_sync:
                told: Ticked | None = yield from self._count_round(one, left.whole())
            else:
                is_last = one is part
                told = yield from self._count(one, left.whole(), is_last=is_last)
            ticked += [] if told is None else [told]
        return ticked

    def land(self, part: SharedPart) -> Act[list[Ticked]]:
        """Wait for a part's push that is on its way, if there is one."""
        if part.spec.part not in self.flights:
            return []
        if part.rules.round_overlap:
            ticked, num_finished = yield from self._overlapping.land(part)
            self.tasks_finished += num_finished
            return [ticked]
        flight = self.flights.pop(part.spec.part)
        done = yield from collect_push(self._asking, flight)
        if part.rules.is_sync:
            told: Ticked | None = yield from self._count_round(part, done)
        else:
            told = yield from self._count(part, done)
        is_counted = told is not None and told.late is None
        try:
            yield from self._read_after(part, flight, is_first=done.is_first)
        except Abandoned as gone:
            if told is None:
                is_counted = yield from self._teller.is_heard()
            raise Abandoned(str(gone), is_counted=is_counted) from gone
        return [] if told is None else [told]

    def _read_after(self, part: SharedPart, flight: Flight, *, is_first: bool) -> Act[None]:
        """The values after a push, which servers had for the first time or had before."""
        is_current = is_first or part.rules.is_sync
        yield from collect_values(self._asking, part, flight.values, is_current=is_current)
        is_late = part.is_late
        if is_late and part.rules.trains_late_again:
            yield from hand_back(self._asking, self._leases, self._parts)
        elif is_late or part.rules.carries_over:
            yield from pull_part(self._asking, part, flight.servers(), part.base_round())
        if not (is_late or flight.at_round is None or part.rules.pushes_overlap):
            part.pulled(flight.at_round)

    def land_all(self, *, but_fragments: bool = False) -> Act[list[Ticked]]:
        """Wait for all pushes that are on their way, or all but fragments'."""
        ticked: list[Ticked] = []
        for part in list(self._parts.values()):
            if not (but_fragments and part.rules.takes_turns):
                ticked += yield from self.land(part)
        return ticked

    def come_along(self, part: SharedPart) -> Act[list[Ticked]]:
        """Before a step: wait for a part's push as far as the pace wants it by now."""
        if not part.rules.round_overlap or self.turns.has_gone_far(part):
            return (yield from self.land(part))
        if part.spec.part in self.flights:
            yield from self._overlapping.tell_prepared(part)
        return []

    def forget(self) -> None:
        """The timeline or the incarnation is gone, and what was on its way with it."""
        self.flights.clear()
        self._overlapping.forget()
        self.collectives.clear()
        self._teller.forget()
        self._marching.forget()

    def _others_open(self, pushing: SharedPart) -> list[SharedPart]:
        """Other parts that await their push."""
        if len(self._parts) == 1:
            return []
        others = [part for part in self._parts.values() if part is not pushing]
        return [part for part in others if part.window.is_open()]

    def _count(
        self,
        part: SharedPart,
        done: Acknowledged,
        *,
        is_last: bool = True,
    ) -> Act[Ticked | None]:
        """All servers have a window; the coordinator is told, if it should know now.

        Unless it is the ``is_last`` of its step, what is told of another says all of it.
        """
        if self._teller.unheard:
            yield from self._teller.hear()
        parts, others = tuple(self._parts), self._others_open(part)
        part.finished = part.pushed_steps
        acked = self._leases.acked_with(part.spec.part, done.window, parts)
        self._leases.advance(part.spec.part, done.window)
        self._teller.add(part, done, acked)
        num_complete = self._leases.drop_complete(parts)
        self.tasks_finished += num_complete
        self._asking.clock += 1
        # While a window is open, its task has not ended: with another lease at hand it
        # would go on into the next one.
        is_busy = part.window.is_open() or others or self._leases.current()
        wants_lease = not is_busy
        must_tell = part.rules.is_bounded or num_complete or wants_lease
        if not is_last or not (must_tell or self._teller.is_due(part)):
            return None
        tick = self._teller.tick(
            part,
            clock=self._marching.ticks(),
            is_prepared=done.is_prepared,
            ends_step=not any(other.rules.is_sync for other in others),
            wants_lease=wants_lease,
        )
        if not (must_tell or part.rules.spans_tasks):  # else the answer says what is next
            yield from self._teller.tell_on(part, tick)
            return None
        ticked = yield from self._teller.tell(part, tick)
        self._marching.heard(ticked.slowest)
        part.steps = ticked.steps
        return ticked

    def _count_round(
        self,
        part: SharedPart,
        done: Acknowledged,
        *,
        collective: Collective | None = None,
    ) -> Act[Ticked]:
        """All servers have prepared a window; it counts if it is in time for its round."""
        parts, others = tuple(self._parts), self._others_open(part)
        acked = self._leases.acked_with(part.spec.part, done.window, parts)
        self._teller.add(part, done, acked)
        self._asking.clock += 1
        is_busy = part.window.is_open() or others or self._leases.current()
        tick = self._teller.tick(
            part,
            is_prepared=done.is_prepared,
            ends_step=part.rules.takes_turns
            or not any(other.rules.is_sync for other in others),
            wants_lease=not is_busy,
        )
        if collective is None:
            ticked = yield from self._teller.tell(part, tick)
        else:
            exchange = partial(exchange_values, self._asking, part, done, collective)
            ticked = yield from self._teller.tell_exchanged(part, tick, exchange)
        if ticked.late is not None:
            part.came_late(done.window, ticked.late)
            return ticked
        self._leases.advance(part.spec.part, done.window)
        self.tasks_finished += self._leases.drop_complete(parts)
        part.round = 1 + (part.round if ticked.round is None else ticked.round)
        return ticked

    def _exchange(self, part: SharedPart, servers: tuple[str, ...]) -> Act[list[Ticked]]:
        """Servers prepare an empty window; its values travel between trainers."""
        ticked = yield from self.land(part)
        collective = self.collectives.pop(part.spec.part)
        leaving = close_window(self._asking, part, servers)
        push = self._asking.post(leaving.pushes)
        flight = Flight(leaving.message, leaving.refused, push, [], None)
        # The next push finds its place only where servers have applied this round.
        applied = yield from post_values(
            self._asking,
            part,
            servers,
            collective.asks_servers,
            at_round=part.round,
            with_dense=True,
        )
        done = yield from collect_push(self._asking, flight)
        try:
            told = yield from self._count_round(part, done, collective=collective)
        except UsageError:  # nobody will close this round: what is left waits for none
            self._teller.forget()
            raise
        ticked.append(told)
        yield from collect_values(self._asking, part, applied, is_current=True)
        part.pulled(part.base_round())
        return ticked

    def _train_again(self) -> Act[list[Ticked]]:
        """A push was too old: its batches go back to the queue, with all that is held."""
        yield from self._teller.tell_all(self._parts)
        yield from hand_back(self._asking, self._leases, self._parts)
        for part in self._parts.values():  # steps that were not acknowledged are theirs
            part.stepped = part.pushed_steps = part.finished
        return []

"""Rounds: which prepared pushes make one synchronous update.

A trainer that has all servers' *prepared* ticks the round; the coordinator closes it
when every participant has, with one set of contributors and weights for all servers. A
participant is a trainer that holds a lease: uneven data cannot hang a round. Weights
are ``n_i / N`` by records for the mean, 1 for the sum. Where the pace says so it closes
without some (`paceline.pace.policy.backups_of`, `paceline.coordinator.ledgers.quorum`).

A step over several parts is one round of each, in the same order in every trainer. So
that nobody falls out of line, a trainer that repeats a batch which one part has applied
and another has not ticks the round of the first without contributing, and a trainer
without a lease gets one only while nobody is between two parts of a step.

Where values travel between trainers, all must have ticked one exchange, and it must be that
of exactly those who have ticked::

    Meet      a trainer has come, with the push that it brings
    all with work have come          everyone is told the same `Exchange`
    Tick      the values of all have come to it
    all of exactly this exchange have ticked     the round is closed, as any other

If somebody is lost or comes in between, the exchange of those who are left has another
name: whoever ticked the old one meets again, and brings the values that it still holds.
Nothing of this is durable. A coordinator that has restarted is asked again, and names an
exchange of the same members the same.

Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import final

from paceline.coordinator.durable import Durable
from paceline.coordinator.durable.outcomes import RoundCommitted
from paceline.coordinator.ledgers.quorum import Quorum
from paceline.messages.meeting import Bringing, Exchange, Meet, Member, exchange_name
from paceline.messages.shared import Contribution
from paceline.messages.trainer import Tick
from paceline.pace.policy import (
    backups_of,
    grace_of,
    may_do_without,
    quorum_of,
    weigh,
)


def _is_uneven(state: Durable) -> bool:
    """Whether slots may differ in what they have of a task, from before the rounds.

    A late push goes along with the next, and no window crosses what they differ by.
    """
    return any(record.lease.edges for record in state.queue.pending.values())


def _since_first(
    came_s: Mapping[str, float], contributions: Sequence[Contribution]
) -> tuple[float, ...]:
    """When each of them came, since the first of all who did; to a tenth of a ms."""
    if len(came_s) == 1:
        return (0.0,) * len(contributions)
    first_s = min(came_s.values())
    return tuple([round(came_s[one.trainer] - first_s, 4) for one in contributions])


@final
class Rounds:
    """Who has come to the open round of each synchronous part, of all who hold a lease.

    Attributes:
        open: {part: {trainer: its tick}}, of parts to whose round somebody has come.
        meets: {part: {trainer: with what it came to exchange values}}.
    """

    def __init__(self) -> None:
        self.open: dict[int, dict[str, Tick]] = {}
        self.meets: dict[int, dict[str, Meet]] = {}
        self._came_s: dict[int, dict[str, float]] = {}  # {part: {trainer: when}}
        self._quorums: dict[int, Quorum] = {}  # {part: when who came}
        self._went_on_s: dict[str, float] = {}  # {trainer: since when it computes}

    def enters(self, trainer: str, now_s: float) -> None:
        """A trainer that held no lease has one, and goes to work."""
        self._went_on_s[trainer] = now_s

    def tick(self, trainer: str, tick: Tick, now_s: float) -> None:
        """A trainer has come to the open round, with a prepared push or without."""
        self.open.setdefault(tick.part, {})[trainer] = tick
        self._came_s.setdefault(tick.part, {}).setdefault(trainer, now_s)

    def drop(self, trainer: str) -> None:
        """A trainer is lost or gone, or has given its leases back: its ticks are void."""
        self._went_on_s.pop(trainer, None)
        for ticks in self.open.values():
            ticks.pop(trainer, None)
        for came_s in self._came_s.values():
            came_s.pop(trainer, None)
        for here in self.meets.values():
            here.pop(trainer, None)

    def clear(self) -> None:
        """All open rounds are void (a return to a cut)."""
        self.open.clear()
        self._came_s.clear()
        self.meets.clear()
        self._quorums.clear()
        self._went_on_s.clear()

    def missing(self, part: int, state: Durable) -> set[str]:
        """Participants whose tick the open round of a part waits for."""
        return state.queue.holders(but=self.open.get(part, ()))

    def ticked_parts(self) -> list[int]:
        """Parts whose open round has a tick, in the order of a step."""
        return sorted(self.open)

    def parts_met_for(self) -> list[int]:
        """Parts for whose open round somebody has come to exchange values."""
        return sorted(part for part, here in self.meets.items() if here)

    def waiting(self, part: int) -> set[str]:
        """Trainers that have come to the open round of a part, or to meet for it."""
        return self.open.get(part, {}).keys() | self.meets.get(part, {}).keys()

    def decide_round(
        self,
        part: int,
        state: Durable,
        now_s: float,
        count_records: Callable[[], int],
        *,
        needs_all: bool = False,
    ) -> RoundCommitted | None:
        """The open round of a part, closed, if the pace does without whoever is missing.

        With ``needs_all`` it does without nobody. ``count_records`` of the job before it.
        Of a pace with a quorum, `look` was told of the round before.
        """
        ticks = self.open.get(part)
        if not ticks:
            return None
        record = state.parts[part]
        pace = record.plan.spec.pace
        if part in self._quorums:
            if not self._may_close(part, state, now_s):
                return None
        elif not self._is_full(part, state, needs_all=needs_all):
            return None
        if not self._is_one_exchange(part, state):
            return None
        total = sum([tick.records for tick in ticks.values() if tick.is_prepared])
        contributions, ticked, mid_step = [], [], []
        for trainer, tick in sorted(ticks.items()):
            who = tick.incarnation
            ticked.append(who)
            if not tick.ends_step:
                mid_step.append(who)
            if tick.is_prepared:
                push = (tick.number, tick.window, tick.records)
                weight = weigh(pace, tick.records, total)
                contributions.append(Contribution(trainer, who, *push, weight))
        del self.open[part]
        came_s = self._came_s.pop(part)
        self.meets.pop(part, None)
        if part in self._quorums:
            self._quorums[part].closed()
            self._went_on_s |= dict.fromkeys(ticks, now_s)
        return RoundCommitted(
            part,
            record.round + 1,
            tuple(contributions),
            tuple(sorted(ticked)),
            tuple(sorted(mid_step)),
            count_records() + total,
            _since_first(came_s, contributions),
        )

    def without_exchange(self, part: int) -> set[str]:
        """Trainers that have ticked the open round of a part without exchanging values."""
        ticks = self.open.get(part, {})
        return {trainer for trainer, tick in ticks.items() if not tick.exchange}

    def exchanges(self) -> dict[int, dict[str, int]]:
        """Exchanges that were ticked: ``{part: {trainer: name}}``."""
        named = {
            part: {trainer: tick.exchange for trainer, tick in ticks.items()}
            for part, ticks in self.open.items()
        }
        return {part: names for part, names in named.items() if any(names.values())}

    def void(self, part: int, trainer: str) -> None:
        """What a trainer has ticked is no exchange of those who are here: it is void."""
        self.open.get(part, {}).pop(trainer, None)
        self._came_s.get(part, {}).pop(trainer, None)

    def missing_to_meet(self, part: int, state: Durable) -> set[str]:
        """Participants that have not come to exchange values for the open round."""
        return state.queue.holders(but=self.meets.get(part, ()))

    def are_exchanging(self, state: Durable) -> bool:
        """Whether an exchange is formed: who enters now would make it void."""
        return any(not self.missing_to_meet(part, state) for part in self.parts_met_for())

    def decide_exchange(self, part: int, state: Durable) -> Exchange | str | None:
        """The exchange of a part, once all who have work have come.

        Returns:
            None: somebody is missing. A text: they came with different things in mind.
        """
        with_work = state.queue.holders()
        came = {
            trainer: meet
            for trainer, meet in sorted(self.meets.get(part, {}).items())
            if trainer in with_work
        }
        if not came or len(came) < len(with_work):
            return None
        told = {trainer: meet.what for trainer, meet in came.items() if meet.has_values}
        [first, *others] = told.items() if told else [("", "")]
        for trainer, what in others:
            if what != first[1]:
                return (
                    f"{first[0]} came to the round with {first[1]}, {trainer} with {what}: "
                    "in every batch, all trainers must make the same calls in one order"
                )
        at_round = max(meet.round for meet in came.values())
        members = tuple(
            Member(
                trainer,
                meet.incarnation,
                meet.number,
                meet.records,
                meet.address,
                meet.has_values,
            )
            for trainer, meet in came.items()
        )
        bringing = [
            Bringing(m.trainer, m.incarnation, m.number, m.has_values) for m in members
        ]
        name = exchange_name(state.timeline, part, at_round, bringing)
        return Exchange(name=name, part=part, round=at_round, members=members)

    def is_exchanged(self, part: int, state: Durable) -> bool:
        """Whether all with work have ticked one exchange, that of exactly them."""
        names = set(self.exchanges().get(part, {}).values())
        return (
            bool(names)
            and not self.missing(part, state)
            and self._is_one_exchange(part, state)
        )

    def _is_one_exchange(self, part: int, state: Durable) -> bool:
        ticks = self.open[part]
        names = {tick.exchange for tick in ticks.values()}
        if names == {0}:  # no values travel
            return True
        bringing = [
            Bringing(trainer, tick.incarnation, tick.number, tick.is_prepared)
            for trainer, tick in ticks.items()
        ]
        at_round = state.parts[part].round + 1
        return names == {exchange_name(state.timeline, part, at_round, bringing)}

    def look(self, part: int, state: Durable, now_s: float) -> None:
        """Note who has come to the open round of a part, which a quorum closes."""
        pace = state.parts[part].plan.spec.pace
        wanted = quorum_of(pace)
        assert wanted is not None, f"part {part} waits for all"
        quorum = self._quorums.setdefault(part, Quorum())
        ticks = self.open.get(part, {})
        for trainer in sorted(ticks.keys() - quorum.here):
            quorum.came(trainer, now_s, self._went_on_s.get(trainer))
        wanted = min(wanted, state.queue.num_holders())
        quorum.look(set(ticks), wanted, grace_of(pace), now_s)

    def reason_to_wait(self, part: int, state: Durable, now_s: float) -> str | None:
        """What the open round of a part waits for, where a quorum closes it; else None."""
        if part not in self._quorums:
            return None
        until_s = self._quorums[part].until_s
        if until_s is None:
            wanted = quorum_of(state.parts[part].plan.spec.pace)
            return f"{len(self.open.get(part, {}))} of {wanted} deltas are there"
        return f"it closes in {max(0.0, until_s - now_s):.1f} s"

    def _is_full(self, part: int, state: Durable, *, needs_all: bool) -> bool:
        """Whether all have come, or all but those that the pace does without."""
        pace, num_holders = state.parts[part].plan.spec.pace, state.queue.num_holders()
        ticks = self.open[part]
        short = num_holders - len(ticks)
        if short > 0 and (needs_all or short > backups_of(pace)):
            return False  # seen without looking at each
        missing = len(state.queue.holders(but=ticks))
        if missing and (needs_all or _is_uneven(state)):
            return False
        return not missing or may_do_without(pace, missing, num_holders)

    def _may_close(self, part: int, state: Durable, now_s: float) -> bool:
        """Whether a quorum has come, and all others, or the time for them is over."""
        if not self.missing(part, state):
            return True
        until_s = self._quorums[part].until_s
        return until_s is not None and until_s <= now_s

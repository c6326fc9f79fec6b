"""Rounds: which prepared pushes make one synchronous update.

A trainer that has all servers' *prepared* ticks the round; the coordinator closes it
when every participant has, with one set of contributors and weights for all servers. A
participant is a trainer that holds a lease: uneven data cannot hang a round. Weights
are ``n_i / N`` by records for the mean, 1 for the sum.

A step over several parts is one round of each, in the same order in every trainer. So
that nobody falls out of line, a trainer that repeats a batch which one part has applied
and another has not ticks the round of the first without contributing, and a trainer
without a lease gets one only while nobody is between two parts of a step.

Pure.
"""

from typing import NamedTuple, final

from paceline.coordinator.durable import Durable
from paceline.coordinator.outcomes import RoundCommitted
from paceline.ids import Window
from paceline.messages import Contribution, Tick
from paceline.pace.policy import backups_of, may_do_without, weigh


class Ticked(NamedTuple):
    """A trainer's tick of the open round."""

    incarnation: int
    number: int
    window: Window
    records: int
    is_prepared: bool
    ends_step: bool


def participants(state: Durable) -> set[str]:
    """Trainers that the open rounds wait for."""
    return state.queue.holders()


def _is_uneven(state: Durable) -> bool:
    """Whether slots may differ in what they have of a task, from before the rounds.

    A late push goes along with the next, and no window crosses what they differ by.
    """
    return any(record.lease.edges for record in state.queue.pending.values())


@final
class Rounds:
    """Ticks of the open round of each synchronous part."""

    def __init__(self) -> None:
        """No tick has come yet."""
        self._ticks: dict[int, dict[str, Ticked]] = {}  # {part: {trainer: tick}}

    def tick(self, trainer: str, tick: Tick) -> None:
        """A trainer has come to the open round, with a prepared push or without."""
        entry = Ticked(
            tick.incarnation,
            tick.number,
            tick.window,
            tick.records,
            tick.is_prepared,
            tick.ends_step,
        )
        self._ticks.setdefault(tick.part, {})[trainer] = entry

    def drop(self, trainer: str) -> None:
        """A trainer is lost or gone, or has given its leases back: its ticks are void."""
        for ticks in self._ticks.values():
            ticks.pop(trainer, None)

    def clear(self) -> None:
        """All open rounds are void (a return to a cut)."""
        self._ticks.clear()

    def missing(self, part: int, state: Durable) -> set[str]:
        """Participants whose tick the open round of a part waits for."""
        return participants(state) - self._ticks.get(part, {}).keys()

    def ticked_parts(self) -> list[int]:
        """Parts whose open round has a tick, in the order of a step."""
        return sorted(self._ticks)

    def decide_round(
        self, part: int, state: Durable, *, needs_all: bool = False
    ) -> RoundCommitted | None:
        """The open round of a part, closed, if the pace does without whoever is missing.

        Args:
            part: whose round it is.
            state: of the job.
            needs_all: whether it may do without anybody at all.
        """
        ticks = self._ticks.get(part, {})
        if not ticks:
            return None
        pace, num_holders = state.parts[part].plan.spec.pace, state.queue.num_holders()
        spare = 0 if needs_all else backups_of(pace)
        if len(ticks) < num_holders - spare:  # seen without looking at each
            return None
        missing = len(self.missing(part, state))
        if missing and (needs_all or _is_uneven(state)):
            return None
        if missing and not may_do_without(pace, missing, num_holders):
            return None
        prepared = {t: tick for t, tick in sorted(ticks.items()) if tick.is_prepared}
        total = sum(tick.records for tick in prepared.values())
        contributions = tuple(
            Contribution(
                trainer,
                tick.incarnation,
                tick.number,
                tick.window,
                tick.records,
                weigh(pace, tick.records, total),
            )
            for trainer, tick in prepared.items()
        )
        del self._ticks[part]
        return RoundCommitted(
            part,
            state.parts[part].round + 1,
            contributions,
            tuple(sorted(tick.incarnation for tick in ticks.values())),
            tuple(sorted(t.incarnation for t in ticks.values() if not t.ends_step)),
        )

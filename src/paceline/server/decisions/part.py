"""A shared part as one server has it: its slots, its pace, and how far it is.

Pure.
"""

from typing import final

from paceline.config import Pace
from paceline.messages.data import Push
from paceline.messages.shared import PartPlan
from paceline.messages.values import SetValues
from paceline.pace.policy import backups_of, carries_over, steps_locally, updates_in_rounds
from paceline.server.decisions.verdicts import (
    Held,
    LastPush,
    Prepared,
    PushDecision,
    Verdict,
)


@final
class Part:
    """A part as it stands on this server."""

    def __init__(self, plan: PartPlan, server: str) -> None:
        """Nothing was pushed yet."""
        self.march(plan.spec.pace)
        self.has_ended = plan.has_ended
        mine = [slot for slot, place in plan.placement.items() if place == server]
        self.slots = () if plan.has_ended else tuple(sorted(mine))  # that have marks
        # What concerns a push as a whole is counted once, by the first slot's server.
        self.counts_pushes = plan.placement.get(min(plan.placement, default=-1)) == server
        self.round = 0
        self.version = 0
        self.prepared: dict[int, Prepared] = {}  # {incarnation: its buffered push}
        self.held: dict[int, Held] = {}  # {incarnation: its push that awaits its step}
        self.last: dict[int, LastPush] = {}  # {incarnation: its last push}
        self.set: dict[int, tuple[int, bool]] = {}  # {incarnation: last tag, is settled}

    def march(self, pace: Pace) -> None:
        """Be updated at this pace."""
        self.pace = pace
        self.is_sync = updates_in_rounds(pace)
        self.does_without = backups_of(pace) > 0
        self.carries_over = carries_over(pace)  # what no round has had yet
        # Trainers have taken as many steps of their own as there was data for each.
        self.may_differ = self.does_without or steps_locally(pace)

    def end(self) -> tuple[int, ...]:
        """Nobody pushes any more: its slots, which have marks no longer."""
        ended, self.slots, self.has_ended = self.slots, (), True
        return ended

    def fence(self, incarnation: int) -> bool:
        """Nobody hears of an incarnation any more: whether it had a push prepared."""
        self.last.pop(incarnation, None)
        self.set.pop(incarnation, None)
        self.held.pop(incarnation, None)
        return self.prepared.pop(incarnation, None) is not None

    def set_values(self, message: SetValues) -> str | None:
        """Decide values that are to replace what is here: None, they do.

        Otherwise why not: ``repeat``, they have; ``ahead``, they come too soon to be
        decided, or are being set; ``late``, its sender has pushed or set others since.
        """
        tag, is_settled = self.set.get(message.incarnation, (0, True))
        last = self.last.get(message.incarnation)
        if message.tag < tag or (last is not None and last.number > message.number):
            return "late"
        if message.tag == tag:
            return "repeat" if is_settled else "ahead"
        if self.round < message.at_round:
            return "ahead"
        self.set[message.incarnation] = (message.tag, False)
        self.version += 1
        return None

    def have_set(self, message: SetValues) -> None:
        """The numbers of values that were decided have followed."""
        self.set[message.incarnation] = (message.tag, True)

    def settle(
        self, push: Push, verdict: Verdict, slots: tuple[int, ...] = ()
    ) -> PushDecision:
        """A push without numbers to follow; who repeats it is told the same."""
        self.last[push.incarnation] = LastPush(push.number, is_settled=True, said=verdict)
        return PushDecision(verdict, slots)

    def hold(self, push: Push, slots: tuple[int, ...]) -> PushDecision | None:
        """Keep a push for its step; ``slots`` will take it. None: another one is kept."""
        if push.incarnation in self.held:
            return None
        held = Held(push.number, push.window, slots, push.token)
        self.held[push.incarnation] = held
        self.last[push.incarnation] = LastPush(push.number, is_settled=True)
        return PushDecision("hold", slots)

    def repeat(self, push: Push, last: LastPush) -> PushDecision:
        """The last push of a trainer comes again."""
        if push.round is not None and push.incarnation in self.prepared:
            return PushDecision("prepared")
        if push.incarnation in self.held:
            return PushDecision("held")
        if push.round is not None and self.does_without and push.round <= self.round:
            return PushDecision("late")
        return PushDecision(last.said if last.is_settled else "repeat")

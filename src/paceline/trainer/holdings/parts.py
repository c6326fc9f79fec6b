"""A shared part as one trainer knows it: its open window, its numbers, its pace.

Pure.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, final

import msgspec

from paceline.ids import Span, TaskKey, Window
from paceline.messages.data import Pulled
from paceline.messages.shared import Lease, Message, PartPlan, PartSpec
from paceline.pace.guards import bounds_ages, trains_old_again
from paceline.pace.policy import (
    carries_over,
    pull_from,
    push_from,
    pushes_overlap,
    round_overlap,
    staleness_of,
    steps_locally,
    takes_turns,
    trains_late_again,
    updates_in_rounds,
)
from paceline.pace.strategy import Strategy, ask_staleness
from paceline.trainer.verdicts import RefusedStep


class _Entry(msgspec.Struct, frozen=True):
    key: TaskKey
    batch: int
    records: int


@final
class OpenWindow:
    """Batches delivered and stepped since the last push: what the next is computed from."""

    def __init__(self) -> None:
        self._delivered: list[_Entry] = []
        self._stepped: list[_Entry] = []

    def deliver(self, key: TaskKey, batch: int, records: int) -> None:
        """A batch was handed to the user."""
        self._delivered.append(_Entry(key, batch, records))

    def reopen(self, window: Window) -> None:
        """A window that was closed has had no effect, and its batches shall have none.

        They go along with what is stepped next, without a record of their own.
        """
        entries = [
            _Entry(key, batch, 0)
            for key, span in zip(window.task_keys(), window.spans, strict=True)
            for batch in range(span.first, span.last + 1)
        ]
        self._stepped = entries + self._stepped

    def take_back(self, key: TaskKey, batch: int) -> None:
        """The batch delivered last was not delivered after all."""
        entry = self._delivered.pop()
        assert (entry.key, entry.batch) == (key, batch), f"{entry} was delivered last"

    def undo_step(self) -> None:
        """What was stepped awaits its step again."""
        self._delivered, self._stepped = self._stepped + self._delivered, []

    def copy(self) -> "OpenWindow":
        """As it is now."""
        window = OpenWindow()
        window._delivered, window._stepped = list(self._delivered), list(self._stepped)
        return window

    def step(self, *, but: int = 0) -> bool:
        """The user stepped, over all ``but`` the newest; false if that is nothing."""
        stepped = self._delivered[: len(self._delivered) - but]
        self._stepped += stepped
        self._delivered = self._delivered[len(stepped) :]
        return bool(stepped)

    def drop_delivered(self) -> None:
        """What was delivered and not stepped will not be."""
        self._delivered = []

    def has_delivered(self) -> bool:
        """Whether a batch awaits its step."""
        return bool(self._delivered)

    def num_delivered(self) -> int:
        """Batches that await their step."""
        return len(self._delivered)

    def is_open(self) -> bool:
        """Whether there is anything to push or to step."""
        return bool(self._delivered or self._stepped)

    def num_batches(self, *, with_delivered: bool) -> int:
        """Stepped batches, and those that await their step."""
        return len(self._stepped) + (len(self._delivered) if with_delivered else 0)

    def close(self) -> tuple[Window, int]:
        """The window of all stepped batches and its records; empty from here on."""
        entries, self._stepped = self._stepped, []
        first = entries[0].key
        spans: list[Span] = []
        records = 0
        for entry in entries:
            key, batch = entry.key, entry.batch
            records += entry.records
            assert key is first or key[:2] == first[:2], f"{key} is of another epoch"
            if spans and spans[-1].task == key.task:
                assert batch == spans[-1].last + 1
                spans[-1] = spans[-1]._replace(last=batch)
            else:
                spans.append(Span(key.task, batch, batch))
        return Window(first.stage, first.epoch, tuple(spans)), records


class Writing(NamedTuple):
    """How the next push of a part is made.

    ``tokens``: of the locks that its rows are written under, {server: token}. ``beside``:
    numbers of other parts whose windows leave in the same step, which has its effect as a
    whole or not at all.
    """

    tokens: Mapping[str, int] = {}
    beside: tuple[int, ...] = ()


@final
class SharedPart:
    """A part as this trainer knows it; without a strategy its pace says all."""

    def __init__(self, spec: PartSpec, strategy: Strategy | None = None) -> None:
        self.spec, self.rules, self.strategy = spec, rules_of(spec), strategy
        self.plan: PartPlan | None = None
        self.window = OpenWindow()
        self.number = 0  # of the last push
        self.tag = 0  # of the last values that were set
        self.lacks_own = False  # a push of its own is not in the values here
        self.round = 1  # that the next push is prepared for
        self.pulled_round = -1  # what the parameters here correspond to; -1: nothing
        self.batches_since_pull = 0
        self.stepped = 0  # steps of this membership
        self.pushed_steps = 0  # of these, those of pushes that have left
        self.finished = 0  # of these, those that all servers have acknowledged
        self.records = 0  # of windows that all servers have acknowledged
        self.seen = 0  # the slowest clock when the values here were asked for
        self.is_late = False  # what was asked for behind the last push is of no use
        self.versions: dict[str, int] = {}  # {server: version of the values here}
        self.bases: dict[str, int] = {}  # {server: least version of the open window's}
        self.fate: Literal["effect", "void"] | None = None  # of the open window's batches
        self.refused: RefusedStep | None = None  # what is pushed next is to have no effect
        self.steps: int | None = None  # batches of the next window, if it is told so
        self.writing: Writing | None = None  # under which locks the next push is made
        self.lock_number = 0  # of the last lock
        self.forgotten = ""  # why what was delivered last is gone, until the next batch

    def take_plan(self, plan: PartPlan) -> None:
        """The part is as this plan says, at the pace that it has by now."""
        self.plan = plan
        self.spec, self.rules = plan.spec, rules_of(plan.spec)

    def forget(self, reason: str = "") -> None:
        """Drop what a gone timeline left open; the step over it will be told why."""
        if self.window.is_open():
            self.forgotten = reason
        self.window = OpenWindow()
        self.pulled_round, self.lacks_own = -1, False
        self.batches_since_pull = 0
        self.stepped = self.pushed_steps = self.finished = 0
        self.versions, self.bases = {}, {}
        self.fate, self.refused = None, None
        self.steps = None

    def step(self) -> bool:
        """The user has stepped; false if nothing was delivered since the last step."""
        is_step = self.window.step()
        self.stepped += is_step
        return is_step

    def undo_step(self, window: OpenWindow) -> None:
        """The push of a step has had no effect: its batch is in the user's hands again.

        ``window`` is as it was when the push left.
        """
        self.window = window
        self.window.undo_step()
        self.stepped -= 1
        self.pushed_steps = min(self.pushed_steps, self.stepped)

    def came_late(self, window: Window, last_round: int) -> None:
        """A push came when its round was closed; ``last_round`` is, by now.

        Its batches go along with those of the next push, and have no effect, unless they
        are trained again.
        """
        self.is_late = True
        self.round = last_round + 1
        if not self.rules.trains_late_again:
            self.window.reopen(window)

    @property
    def judge(self) -> str | None:
        """The server that says first whether the next push is too old; None: nobody does.

        It is always the same one, that of the first slot: one verdict for the whole push.
        """
        if not self.rules.bounds_ages or self.fate is not None or self.refused is not None:
            return None
        assert self.plan is not None
        return self.plan.placement[min(self.plan.placement)]

    def deliver(self, lease: Lease, batch: int, records: int) -> None:
        """A batch of a lease was handed to the user.

        Up to the last edge, somewhere its effect was decided: so it is everywhere. Edges
        keep those with an effect and those without apart.
        """
        self.forgotten = ""
        self.fate = None
        if lease.edges and batch <= lease.edges[-1]:
            voids = (v for v in lease.voids if v.part == self.spec.part)
            is_void = any(void.first <= batch <= void.last for void in voids)
            self.fate = "void" if is_void else "effect"
        self.window.deliver(lease.key, batch, records)
        for server, version in self.versions.items():
            self.bases[server] = min(version, self.bases.get(server, version))

    def staleness(self, clock: int) -> int:
        """Steps that a trainer there may be ahead of the slowest, if clocks are bounded."""
        if self.strategy is not None:
            return ask_staleness(self.strategy, clock)
        assert self.rules.staleness is not None, f"{self.spec.pace} bounds no clocks"
        return self.rules.staleness

    def base_round(self) -> int:
        """The round that parameters must stand at for the next push; 0 without rounds."""
        return self.round - 1 if self.rules.is_sync else 0

    def push_due(self, *, at_end: bool) -> bool:
        """Whether the pace wants a push, as if all that was delivered were stepped over.

        ``at_end``: the last delivered batch must end its window.
        """
        if at_end:
            return True
        count = self.window.num_batches(with_delivered=True)
        if self.steps is not None:
            return count >= self.steps
        if self.strategy is not None:
            return self.strategy.push_due(count)
        return count >= self.rules.push_from

    def pull_due(self, *, has_pushed: bool) -> bool:
        """Whether the pace wants a pull now; rounds have their own."""
        waiting = self.batches_since_pull + self.window.num_batches(with_delivered=False)
        if self.strategy is not None:
            return self.strategy.pull_due(waiting, has_pushed=has_pushed)
        rules = self.rules
        return waiting >= (rules.pull_from_pushed if has_pushed else rules.pull_from)

    def took(self, replies: Mapping[str, Message]) -> None:
        """Values have come that the next batches are computed on."""
        for server, reply in replies.items():
            if isinstance(reply, Pulled):
                self.versions[server] = reply.version

    def have_set(self, server: str, version: int) -> None:
        """A server has values of the script's own: an update that makes nothing older."""
        self.versions[server] = version
        if server in self.bases:
            self.bases[server] += 1

    def pulled(self, at_round: int) -> None:
        """The parameters here are those of ``at_round``."""
        self.pulled_round, self.lacks_own = at_round, False
        self.batches_since_pull = -self.window.num_batches(with_delivered=False)

    def has_read(self) -> bool:
        """Whether the values here were read behind the last push, and no batch is since."""
        return not (self.lacks_own or self.batches_since_pull)

    def pushed(self, num_batches: int) -> None:
        """A window of so many batches has left."""
        self.pushed_steps = self.stepped
        self.is_late, self.lacks_own = False, True
        self.batches_since_pull += num_batches


class Rules(NamedTuple):
    """What its pace says of a part, once: a trainer asks these many times a step."""

    is_sync: bool  # it is updated in rounds
    staleness: int | None  # by how much clocks are bounded
    is_bounded: bool  # whether they are
    pushes_overlap: bool  # the trainer computes on while its last push is under way
    round_overlap: int  # batches that it goes on for while a round of its own is
    takes_turns: bool  # pushes are due by turns, as those of fragments are
    spans_tasks: bool  # a window goes on behind the end of a task
    carries_over: bool  # a push whose round has closed without it is in the next
    reads_round: bool  # the round that a push will be in brings the next values
    bounds_ages: bool  # a push may be too old to be applied
    trains_late_again: bool  # batches of a late push go back to the queue
    trains_old_again: bool  # the same of one that is too old
    has_values: bool  # there is something to pull, or to wait for by pulling
    push_from: int  # stepped batches from which a window is pushed
    pull_from: float  # batches since a pull from which there is another one
    pull_from_pushed: float  # the same, just behind a push


def rules_of(spec: PartSpec) -> Rules:
    """What a part's pace says by now."""
    pace, bound = spec.pace, staleness_of(spec.pace)
    is_sync, is_carried = updates_in_rounds(pace), carries_over(pace)
    # Of tables alone nothing is to be pulled, but rounds are waited for, and clocks and
    # versions are those of what was pulled last.
    is_free = not (is_sync or bound is not None or bounds_ages(pace))
    return Rules(
        is_sync,
        bound,
        bound is not None,
        pushes_overlap(pace),
        round_overlap(pace),
        takes_turns(pace),
        steps_locally(pace),
        is_carried,
        is_sync and not is_carried,  # else it is not known yet which round that is
        bounds_ages(pace),
        trains_late_again(pace),
        trains_old_again(pace),
        bool(spec.parameters) or not is_free,
        push_from(pace),
        pull_from(pace, has_pushed=False),
        pull_from(pace, has_pushed=True),
    )

"""A trainer's way through the job: leases, windows, pushes, ticks, pulls, and rejoining.

The session carries acts (`paceline.trainer.acts`) over connections, the simulator in
virtual time: the same decisions run in both.

A window is what a push was computed from: the batches delivered since the last push. It
closes when the pace wants a push, at an edge of a lease, at the end of a task, before any
wait. A push is asked of all servers until all have acknowledged it, then it is ticked.
When the timeline or incarnation is gone, all that is open is dropped; `next_batch` joins.

Pure.
"""

from collections.abc import Callable
from typing import TypeVar, final

from paceline.errors import PacelineError, UsageError
from paceline.messages.shared import Message, PartSpec, StageSpec
from paceline.messages.trainer import (
    AskLease,
    Granted,
    Joined,
    Save,
    Saved,
    StageOver,
    Ticked,
)
from paceline.pace.strategy import Strategy
from paceline.trainer.acts import Abandoned, Act, Asking, ForgetPosted
from paceline.trainer.holdings import (
    Leases,
    LeaseWork,
    Nothing,
    SharedPart,
    drop_unstepped,
    find_ahead,
    give_up,
    hand_back,
)
from paceline.trainer.protocol.evaluating import Evaluation
from paceline.trainer.protocol.joining import (
    LOST_BEFORE_BREAK,
    UndoPoint,
    agree_stage,
    enter,
    establish,
    join_job,
)
from paceline.trainer.protocol.pacing import StalenessGate
from paceline.trainer.protocol.pushing import Coming, pull_part
from paceline.trainer.protocol.stepping import Stepping
from paceline.trainer.protocol.tables import Rotation
from paceline.trainer.protocol.ticking import TickSender
from paceline.trainer.protocol.tracking import Tracking
from paceline.trainer.verdicts import Batch, Flush, Leaving, Over, Stepped

T = TypeVar("T")
_KEPT, _PUSHED = Stepped("kept"), Stepped("pushed")


@final
class TrainerProtocol:
    """All decisions of one trainer."""

    def __init__(self, trainer: str, pid: int, host: str, *, patience_s: float) -> None:
        self.trainer = trainer
        self.joined: Joined | None = None
        self.parts: dict[int, SharedPart] = {}
        self.stage: StageSpec | None = None
        self.tracked = Tracking(self.parts)
        self.leaving: str | None = None  # why the trainer must go; any thread may say so
        self.must_begin_again: str | None = None  # why the script must, from its top
        self.behind = UndoPoint()
        self._leases = Leases()
        self.must_join = True  # what it was part of is gone: the next batch joins again
        self._why_join = "it has not joined yet"
        self._pid, self._host = pid, host
        self.asking = Asking(patience_s)  # as long as the coordinator may be away
        self.servers = self.asking.servers  # {server id: address}, as it was told last
        self._teller = TickSender(self.asking, self.tracked)
        self.marching = StalenessGate(self.asking, self.parts)
        self.stepping = Stepping(
            self.asking, self._teller, self._leases, self.parts, self.marching
        )
        self.evaluation = Evaluation(self, self.asking, self.tracked)
        self.rotation = Rotation(self.asking, self._leases, self.parts)

    def find_ahead(self, stage: StageSpec, number: int) -> Act[Batch | Nothing]:
        """The batch behind ``number`` more, of a new lease if there is one."""
        return self.as_member(
            lambda: find_ahead(self.asking, self._leases, self.parts, stage, number)
        )

    def peek(self, ahead: int = 0) -> Batch | None:
        """The batch after ``ahead`` more, if it is known already; it is not delivered."""
        if self.must_join or self.asking.stopped is not None:
            return None
        return self._leases.peek(ahead)

    def join(self) -> Act[None]:
        """Become a member, again if need be; values and leases are as if new."""
        if self.joined is not None:
            self.tracked.forget()
        joined = yield from join_job(self.asking, self.trainer, self._pid, self._host)
        self.joined = joined
        self.servers.clear()
        self.servers.update(joined.servers)
        self.must_join = False
        self._leases.clear()
        for part in self.parts.values():
            part.forget()
        for part in list(self.parts.values()):
            lost = yield from establish(self.asking, part, tuple(self.servers))
            self.must_begin_again = self.must_begin_again or lost
        self.must_begin_again = self.must_begin_again or self.behind.why_undone(joined)
        if self.stage is not None:
            self.stage = yield from agree_stage(self.asking, self.stage)

    def share(self, spec: PartSpec, strategy: Strategy | None = None) -> Act[None]:
        """Share a part: upload its values if this trainer is the first, then pull."""
        part = self.parts[spec.part] = SharedPart(spec, strategy)
        while True:
            try:
                if self.must_join:
                    yield from self.join()  # establishes the new part as well
                else:
                    yield from establish(self.asking, part, tuple(self.servers))
                yield from pull_part(self.asking, part, tuple(self.servers), 0)
            except Abandoned as gone:
                yield from self._abandon(str(gone))
            else:
                return

    def begin_stage(self, spec: StageSpec) -> Act[None]:
        """Begin a loop over a stage's data."""
        self.stage, before = spec, self.stage
        try:
            self.stage = yield from self.as_member(lambda: agree_stage(self.asking, spec))
        except PacelineError:
            self.stage = before
            raise
        self.tracked.begin(spec)

    def at_hand(self) -> Batch | None:
        """The next batch, delivered, where `_next_batch` would do nothing before it."""
        asking = self.asking
        if self.leaving or self.must_begin_again or self.must_join:
            return None
        if asking.stopped is not None or asking.pauses or self.tracked.is_wanted:
            return None
        work = self._leases.current()
        if work is None or self._leases.at_edge_before(work) or self.marching.is_on():
            return None
        return self._deliver(work)

    def next_batch(self) -> Act[Batch | Flush | Over | Leaving]:
        """What to do next; parameters are pulled where the pace wants it."""
        while True:
            if (batch := self.at_hand()) is not None:
                return batch
            if (why := self.leaving or self.must_begin_again) is not None:
                return Leaving(why)
            found = yield from self.as_member(self._next_batch)
            if found is not None:
                return found

    def _next_batch(self) -> Act[Batch | Flush | Over | None]:
        assert self.stage is not None
        if self.must_begin_again is not None:  # as it has learned by joining
            return None
        if self.tracked.is_wanted and self.stepping.turns.are_stepped_over():
            return Flush()  # windows of fragments are never closed all at once
        if self.tracked.is_wanted and not self._is_open():
            yield from self._keep_tracked()
        work = self._leases.current()
        if (self.asking.stopped is not None or self.asking.pauses) and self._leases:
            if self._is_open():
                return Flush()
            yield from self._hand_back()
            return None
        if work is not None:
            if self._leases.at_edge_before(work) and self._is_open():
                return Flush()
            servers, is_open = tuple(self.servers), self._is_open()
            turn = yield from self.marching.next_turn(servers, is_open=is_open)
            if turn != "go":
                return Flush() if turn == "flush" else None
            return self._deliver(work)
        return (yield from self._ask_for_work(self.stage))

    def _ask_for_work(self, stage: StageSpec) -> Act[Flush | Over | None]:
        yield from self._land_all(but_fragments=True)
        if self._leases.current() is not None:
            return None
        is_out = any(self.parts[n].rules.takes_turns for n in self.stepping.flights)
        is_open = self._is_open() or is_out
        held, who = self._leases.held(tuple(self.parts)), self.asking.who()
        asked = AskLease(**who, stage=stage.stage, held=held, is_open=is_open)
        reply = yield from self.asking.ask_once(asked)
        if isinstance(reply, Granted):
            yield from self._take(LeaseWork(reply.lease, stage))
            return None
        self.tracked.note(reply)
        if is_open:
            return Flush()
        if isinstance(reply, StageOver):
            self.asking.stopped = reply.stopped
            self.behind.went_on_from(reply.cut)
            yield from self.tracked.end(self.asking, min(self.servers), reply)
            for part in self.parts.values():
                yield from pull_part(self.asking, part, tuple(self.servers), 0)
            return Over(reply.stopped)
        return None

    def _deliver(self, work: LeaseWork) -> Batch:
        batch = self._leases.deliver(work)
        records = work.batch_records(batch)
        for part in self.parts.values():
            part.deliver(work.lease, batch, records)
        self.behind.had(work.lease.key, batch)
        return Batch(work.lease.key, batch)

    def leave_loop(self) -> Act[None]:
        """Leave early: flush what was stepped, hand the rest back; see `membership`."""
        if self.must_begin_again is not None:
            return
        try:
            if self.must_join:
                raise Abandoned(self._why_join)
            drop_unstepped(self.parts)
            for number in self.stepping.in_order(list(self.parts)):
                if (part := self.parts[number]).window.is_open():
                    yield from self._note((yield from self._push_window(part)))
            yield from self._keep_tracked()
            yield from self._hand_back()
            self.behind.left(self.asking.timeline)
            self.tracked.leave()
        except Abandoned as gone:
            yield from self._abandon(str(gone))
            if self.leaving is None:
                self.must_begin_again = f"{LOST_BEFORE_BREAK}: {gone}"

    def take_back(self, found: Batch) -> None:
        """A batch could not be delivered after all; it belongs to no window."""
        for part in self.parts.values():
            part.window.take_back(found.key, found.batch)

    def fail_task(self, found: Batch, error: str) -> Act[None]:
        """Give up the task of a batch that was taken back; every window is flushed."""
        if self.must_join:
            return
        assert not self._is_open(), "what was delivered before is flushed first"
        try:
            yield from self._land_all()
            yield from give_up(self.asking, self._leases, self.parts, found.key, error)
        except Abandoned as gone:
            yield from self._abandon(str(gone))

    def step(
        self,
        number: int,
        *,
        flush: bool = False,
        load: Callable[[], None] | None = None,
        coming: Coming | None = None,
    ) -> Act[Stepped]:
        """A step over all delivered since the last one; ``flush``: it pushes in any case.

        ``load`` makes ready what is pushed, if anything is, before that is stepped over.
        ``coming``, called when the push is on its way, says which rows come next.

        Raises:
            UsageError: no batch was delivered since the last step.
        """
        part = self.parts[number]
        is_due = flush or self.stepping.push_due(part)
        if is_due and load is not None and not self.must_join:
            load()  # which may find out that the trainer must join
        if self.must_join:
            return Stepped("dropped", self._why_join)
        if part.forgotten and not part.window.is_open():
            return Stepped("dropped", part.forgotten)
        if not part.step() and not flush:
            raise UsageError(
                "step() without a batch since the last step of this part; one that takes "
                "batches ahead of its steps says so: session.batches(..., lookahead=1)"
            )
        try:
            if not is_due:
                if part.pull_due(has_pushed=False):
                    yield from pull_part(self.asking, part, tuple(self.servers), 0)
                return _KEPT
            if part.window.is_open():
                yield from self._note((yield from self._push_window(part, coming)))
        except Abandoned as gone:
            yield from self._abandon(str(gone))
            return _PUSHED if gone.is_counted else Stepped("dropped", str(gone))
        return _PUSHED

    def land(self, number: int, *, at_once: bool = True) -> Act[None]:
        """Wait for a part's push that is on its way, or only as far as the pace wants."""
        wait = self.stepping.land if at_once else self.stepping.come_along
        try:
            yield from self._note((yield from wait(self.parts[number])))
        except Abandoned as gone:
            yield from self._abandon(str(gone))

    def _land_all(self, *, but_fragments: bool = False) -> Act[None]:
        if self.stepping.flights:
            landing = self.stepping.land_all(but_fragments=but_fragments)
            yield from self._note((yield from landing))
        if self._teller.untold or self._teller.unheard:
            yield from self._teller.tell_all(self.parts)

    def _push_window(
        self, part: SharedPart, coming: Coming | None = None
    ) -> Act[list[Ticked]]:
        return self.stepping.push(part, tuple(self.servers), coming)

    def _note(self, told: list[Ticked]) -> Act[None]:
        for ticked in told:
            if ticked.lease is not None:
                assert self.stage is not None, "without one nothing is pushed"
                work = LeaseWork(ticked.lease, self.stage)
                yield from self._take(work, is_behind_push=True)

    def _take(self, work: LeaseWork, *, is_behind_push: bool = False) -> Act[None]:
        is_entering = not self._leases
        if not self._leases.add(work) or not is_entering:
            return
        among = (self.parts, self.marching, tuple(self.servers))
        yield from enter(self.asking, work.lease, *among, is_behind_push=is_behind_push)
        self.stepping.turns.enter()
        yield from self.tracked.enter(self.asking, min(self.servers), work.lease)

    def _hand_back(self) -> Act[None]:
        yield from self._land_all()
        yield from hand_back(self.asking, self._leases, self.parts)

    def _is_open(self) -> bool:
        return any(part.window.is_open() for part in self.parts.values())

    def save(self, number: int) -> Act[None]:
        """Wait for a cut that begins from now on; ``number`` tells saves apart."""
        self.tracked.is_wanted = True
        yield from self.as_member(lambda: self.wait_cut(number))

    def wait_cut(self, number: int, left: int | None = None) -> Act[int]:
        """As a member: ask for a cut until it is committed; its number.

        ``number`` makes a repetition the same request; ``left``: of a loop left early.
        """
        while True:
            if self.tracked.is_wanted:
                yield from self._keep_tracked()
            save = Save(**self.asking.who(), number=number, left=left)
            reply = yield from self.asking.ask_once(save)
            if isinstance(reply, Saved):
                return reply.cut
            self.tracked.is_wanted = False
            self.tracked.note(reply)

    def _keep_tracked(self) -> Act[None]:
        yield from self._land_all()
        self.tracked.is_wanted = False
        if self.stage is not None and self.stage.tracked:
            rounds = {
                n: part.round - 1 for n, part in self.parts.items() if part.rules.is_sync
            }
            yield from self.tracked.keep(self.asking, min(self.servers), rounds)

    def ask(self, message: Message) -> Act[Message]:
        """Ask the coordinator anything, as who the trainer is now; it joins if it must."""

        def ask() -> Act[Message]:
            yield from self._teller.tell_all(self.parts)
            return (yield from self.asking.ask(self.asking.current(message)))

        return (yield from self.as_member(ask))

    def read(self, messages: dict[str, Message]) -> Act[dict[str, Message]]:
        """Ask servers for values, on whatever timeline they are; see `Asking.read`."""
        return self.asking.read(messages, self._abandon)

    def as_member(self, act: Callable[[], Act[T]]) -> Act[T]:
        """Do something as a member, joining again whenever what it belongs to is gone."""
        while True:
            try:
                if self.must_join:
                    yield from self.join()
                return (yield from act())
            except Abandoned as gone:
                yield from self._abandon(str(gone))

    def _abandon(self, reason: str) -> Act[None]:
        self.must_join, self._why_join = True, reason
        for part in self.parts.values():
            part.forget(reason)
        self.stepping.forget()
        yield ForgetPosted()

"""A server in the wind tunnel: `ServerState` over slots that count what they applied."""

from collections import Counter
from collections.abc import Callable
from typing import final

from paceline.ids import COORDINATOR, Window, cut_folder
from paceline.messages.data import (
    AskTracked,
    KeepTracked,
    Pull,
    Push,
    Pushed,
    Tracked,
    Upload,
)
from paceline.messages.server import (
    CommitRound,
    ConfirmTracked,
    CreatePart,
    CutReport,
    EndPart,
    Fence,
    FileEntry,
    Forget,
    Order,
    Orders,
    Restore,
    SendMarks,
    ServerAnswer,
    ServerReport,
    ShutDown,
    Snapshot,
    TakePaces,
)
from paceline.messages.shared import Done, Message, Refusal, Waiting
from paceline.messages.waits import Wait
from paceline.server.decisions import (
    KeptVoid,
    ServerState,
    SlotMarks,
    TrackedState,
    TrackedStates,
)
from tests.simulate.checks import RoundHistory, Violation, check_steps
from tests.simulate.clocks import Seen
from tests.simulate.disk import Applied, Disk, SimShare, Voided
from tests.simulate.world import Answer, SimProcess, World

FAULT = "crash_server"
WRITE_S = 0.3  # a share is written while pushes and rounds go on
REPORT_TIMEOUT_S = 1.5
_SAID = {"apply": "applied", "prepare": "prepared"}


@final
class SimServer(SimProcess):
    """One process of a server."""

    def __init__(self, world: World, role: str, disk: Disk, rounds: RoundHistory) -> None:
        """Start empty and report."""
        super().__init__(world, role)
        self.state = ServerState(role)
        self.applied: Applied = {}
        self.voided: Voided = {}
        self._numbers: dict[int, dict[int, int]] = {}  # {part: {incarnation: last push}}
        self._disk, self._rounds = disk, rounds
        self._incarnation = 0
        self._prepared: dict[tuple[int, int], Push] = {}  # {(part, incarnation): push}
        self._parked: list[tuple[Pull, Answer]] = []
        self._answers: tuple[ServerAnswer, ...] = ()
        self._tracked = TrackedStates()  # what a state says is a function of its number
        self._shares: set[int] = set()  # numbers of those that may yet be averaged
        self._num_sent = 0  # of the answers, with the last report
        self._pinned_cut = -1
        self._unreadable: str | None = None
        self.act(self._report)

    # ------------------------------------------------------------ data side

    def received(self, sender: str, message: Message, answer: Answer) -> None:
        """Take a trainer's request."""
        self.may_crash(FAULT)
        assert sender.startswith("trainer")
        if isinstance(message, Push):
            answer(self._push(message))
            self.may_crash(FAULT)
        elif isinstance(message, Upload):
            answer(self.state.may_change(message) or Done())
        elif isinstance(message, KeepTracked):
            refusal = self.state.may_keep(message)
            if refusal is None:
                kept = TrackedState(message.number, is_average=bool(message.average))
                if message.buffers_only:
                    self._tracked.keep_share(kept)
                    self._shares.add(message.number)
                else:
                    self._tracked.keep(kept, message.incarnation)
            answer(refusal or Done())
        elif isinstance(message, AskTracked):
            answer(self._read_tracked(message))
        elif isinstance(message, Pull):
            self._pull(message, answer)

    def _read_tracked(self, message: AskTracked) -> Message:
        refusal = self.state.refusal_of(message)
        if refusal is not None or self._tracked.find(message.number) is not None:
            return refusal or Tracked()
        if message.number in self._shares:
            raise Violation(f"{self.role}: share {message.number} went before it counted")
        return Refusal(kind="stale", text="no such state", timeline=message.timeline)

    def _confirm_tracked(self, order: ConfirmTracked) -> None:
        self._tracked.confirm(order.number)
        if self._tracked.confirmed.is_average:
            self._shares.clear()

    def _push(self, push: Push) -> Message:
        decision = self.state.push(push)
        if decision.verdict == "refuse":
            assert decision.refusal is not None
            if decision.refusal.kind == "gap":
                raise Violation(f"{self.role}: {decision.refusal.text}")
            return decision.refusal
        if decision.verdict == "repeat":
            return Waiting(wait=Wait("servers", "being applied"))
        if decision.verdict == "apply":
            self._count(decision.slots, push.window)
            assert decision.last is not None, f"{decision} has numbers that follow"
            decision.last.is_settled = True
        elif decision.verdict == "void" and decision.slots:
            self._count(decision.slots, push.window)
            self._void(decision.slots, push.window)
        elif decision.verdict == "prepare":
            self._prepared[push.part, push.incarnation] = push
        self._numbers.setdefault(push.part, {})[push.incarnation] = push.number
        self.may_crash(FAULT)
        version = self.state.stands_at(push.part).version
        verdict = _SAID.get(decision.verdict, decision.verdict)
        return Pushed(verdict=verdict, version=version)  # type: ignore[arg-type]  # spelled so

    def _count(self, slots: tuple[int, ...], window: Window) -> None:
        for slot in slots:
            applied = self.applied.setdefault(slot, Counter())
            for key, span in zip(window.task_keys(), window.spans, strict=True):
                applied.update((key, batch) for batch in range(span.first, span.last + 1))

    def _void(self, slots: tuple[int, ...], window: Window) -> None:
        for slot in slots:
            voided = self.voided.setdefault(slot, set())
            for key, span in zip(window.task_keys(), window.spans, strict=True):
                voided.update((key, batch) for batch in range(span.first, span.last + 1))

    def _pull(self, pull: Pull, answer: Answer) -> None:
        refusal = self.state.refusal_of(pull)
        if refusal is not None:
            answer(refusal)
        elif not self.state.has_part(pull.part):
            answer(Refusal(kind="not_ready", text="no such part yet"))
        elif self.state.stands_at(pull.part).applied_round < pull.at_round:
            self._parked.append((pull, answer))
        else:
            stands = self.state.stands_at(pull.part)
            pushes = dict(self._numbers.get(pull.part, {}))
            seen = Seen(
                slots=(), round=stands.applied_round, version=stands.version, pushes=pushes
            )
            answer(seen)

    # ------------------------------------------------------------ control side

    def _report(self) -> None:
        report = ServerReport(
            server=self.role,
            incarnation=self._incarnation,
            timeline=self.state.timeline,
            address=self.role,
            pid=self.pid,
            host="world",
            ready=self.state.is_ready,
            parts=self.state.parts(),
            answers=self._answers,
            forgotten_cut=self.state.forgotten_cut,
            pinned_cut=self._pinned_cut,
            counters=dict(self.state.counters),
            tracked=self._tracked.confirmed.number,
            unreadable=self._unreadable,
        )
        self._num_sent = len(self._answers)
        self.ask(COORDINATOR, report, self._got_orders, REPORT_TIMEOUT_S)

    def _got_orders(self, reply: Message | None) -> None:
        if isinstance(reply, Orders):
            self._incarnation = reply.incarnation
            self._answers = self._answers[self._num_sent :]
            for order in reply.orders:
                if isinstance(order, ShutDown):
                    self.world.end(self, 0)
                    return
                self.may_crash(FAULT)
                self._execute(order)
        self._report()

    def _execute(self, order: Order) -> None:
        execute: dict[type[Message], Callable[..., None]] = {
            CreatePart: self._create,
            CommitRound: self._commit,
            Fence: self._fence,
            ConfirmTracked: self._confirm_tracked,
            Snapshot: self._snapshot,
            Restore: self._restore,
            TakePaces: self._take_paces,
            SendMarks: lambda _: self._say(self.state.marks_report()),
            EndPart: lambda order: self.state.end_part(order.part),
            Forget: self.state.forget,
        }
        execute[type(order)](order)

    def _take_paces(self, order: TakePaces) -> None:
        if order.timeline == self.state.timeline:
            return
        self.state.begin_paces(order)
        self._prepared, self._parked = {}, []
        self.may_crash(FAULT)
        self.state.end_paces(order)

    def _create(self, order: CreatePart) -> None:
        self.state.create_part(order.plan)

    def _say(self, answer: ServerAnswer) -> None:
        self._answers = (*self._answers, answer)

    def _commit(self, order: CommitRound) -> None:
        is_applied = self.state.stands_at(order.part).applied_round >= order.round
        decision = self.state.commit_round(order)
        pushes = [self._prepared.pop((order.part, i)) for i in decision.incarnations]
        for incarnation in decision.dropped:
            del self._prepared[order.part, incarnation]
        if not decision.may_differ:
            is_all = self._rounds.is_all
            check_steps(pushes, order.round, self.state.parts(), is_all=is_all)
        for push in pushes:
            self._count(self.slots(order.part), push.window)
            if push.is_void:
                self._void(self.slots(order.part), push.window)
        if self.slots(order.part) and not is_applied:
            windows = frozenset(push.window for push in pushes)
            if not self._rounds.is_all:  # a duplicate here may be new on another server
                windows = frozenset(push.window for push in order.contributions)
            self._rounds.applied(self.state.timeline, order.part, order.round, windows)
        parked, self._parked = self._parked, []
        for pull, answer in parked:
            self._pull(pull, answer)

    def slots(self, part: int) -> tuple[int, ...]:
        """The slots of a part on this server."""
        return self.state.part(part).slots

    def _fence(self, order: Fence) -> None:
        report = self.state.fence(order)
        if report is not None:
            for key in [k for k in self._prepared if k[1] == order.incarnation]:
                del self._prepared[key]
            self._say(report)

    def _snapshot(self, order: Snapshot) -> None:
        if self._pinned_cut == order.cut or not self.state.may_snapshot(order.rounds):
            return
        share = SimShare(
            {slot: Counter(applied) for slot, applied in self.applied.items()},
            self.state.export_marks(),
            {part: report.version for part, report in self.state.parts().items()},
            self._tracked.confirmed,
            self.state.export_voids(),
            {slot: set(voided) for slot, voided in self.voided.items()},
        )
        self._pinned_cut = order.cut
        timeline = self.state.timeline

        def written() -> None:
            self.may_crash(FAULT)
            is_damaged = self.world.faults.happens("damage")
            self._disk.write(order.folder, self.role, share, is_damaged=is_damaged)
            self.may_crash(FAULT)
            if self.state.timeline == timeline:
                entry = FileEntry(f"{self.role}.safetensors", 0, "")
                self._say(CutReport(cut=order.cut, files=(entry,)))

        self.after(WRITE_S, written)

    def _restore(self, order: Restore) -> None:
        self._pinned_cut = -1
        self._unreadable = None
        self.state.begin_restore(order)
        self.applied, self._prepared, self._parked = {}, {}, []
        self.voided = {}
        self.may_crash(FAULT)
        marks: dict[int, SlotMarks] = {}
        versions: dict[int, int] = {}
        voids: tuple[KeptVoid, ...] = ()
        self._tracked = TrackedStates()
        self._shares.clear()
        if order.folder is not None:
            if self._disk.is_damaged(order.folder, self.role):
                self._unreadable = f"{order.folder}/{self.role} is damaged"
                return
            share = self._disk.read(order.folder, self.role)
            if share is None:
                raise Violation(f"{order.folder} has no share of {self.role}, yet counts")
            assert order.folder.startswith(cut_folder(order.cut, 0).split("-t")[0])
            self.applied = {slot: Counter(seen) for slot, seen in share.applied.items()}
            self.voided = {slot: set(voided) for slot, voided in share.voided.items()}
            marks, versions, voids = share.marks, share.versions, share.voids
            self._tracked = TrackedStates(share.tracked)
        self.state.end_restore(order, marks, versions, voids)

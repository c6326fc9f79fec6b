"""The servers of a forecast: `ServerState` behind a processor and both ways of a cable.

All servers have equal shares and get every push at the same moment, so that one stands for
all of them: its lines are as long as theirs. When it dies, one of them has died, and all go
back to the cut, as in a job.

Pure: the agenda's time is the only one.
"""

from typing import NamedTuple, Protocol, final

from paceline.forecast.agenda import Agenda, Line
from paceline.forecast.coordinator import Coordinator
from paceline.forecast.gauge import Gauge
from paceline.forecast.plan import Plan
from paceline.messages.data import Pull, Pulled, PulledRows, PullRows, Push, Pushed
from paceline.messages.server import (
    CommitRound,
    CreatePart,
    CutReport,
    Fence,
    FileEntry,
    Forget,
    Order,
    Orders,
    Restore,
    SendMarks,
    ServerAnswer,
    ServerReport,
    Snapshot,
    TakePaces,
)
from paceline.messages.shared import Done, Message, Refusal, Waiting
from paceline.messages.waits import Wait
from paceline.pace.guards import compensation_of
from paceline.pace.policy import pushes_per_update
from paceline.server.decisions import KeptVoid, ServerState, SlotMarks
from paceline.trainer.acts import Lost

SERVER = "server-0"
HEADER_BYTES = 200  # of a message, without its numbers
_APPLIED = Waiting(wait=Wait("servers", "being applied"))
PAUSE_S = 0.02  # between reports whose orders cannot be carried out yet


class Reader(Protocol):
    """A trainer as its server sees it."""

    base: int
    pushed_s: float
    in_free_s: float

    def got(self, number: int, role: str, reply: Message | Lost) -> None:
        """A reply is here."""


class _Share(NamedTuple):
    cut: int
    marks: dict[int, SlotMarks]
    versions: dict[int, int]
    voids: tuple[KeptVoid, ...] = ()


@final
class Server:
    """One server that stands for all: its processor, and both ways of its cable."""

    def __init__(
        self, agenda: Agenda, plan: Plan, coordinator: Coordinator, gauge: Gauge
    ) -> None:
        self.cpu, self.inward, self.outward = Line(), Line(), Line()
        self.num_old = 0  # that were too old, among these
        self.num_pushes = self.num_messages = self.bytes_in = self.bytes_out = 0
        self._agenda, self._plan, self._coordinator = agenda, plan, coordinator
        self._gauge = gauge
        self._byte_s = 1 / plan.network.bytes_per_s
        self._latency_s = plan.network.latency_s
        self._apply_s, self._add_s = plan.apply_share_s(), plan.add_share_s()
        has_values = compensation_of(plan.pace) is not None
        size = plan.parameter_bytes * (1 + has_values) + plan.row_bytes
        self._pushed = (size, size / plan.servers + HEADER_BYTES)  # of a trainer, to each
        self._most_merged = pushes_per_update(plan.pace)
        self._merging = (0.0, 0)  # the last update: when it starts, pushes in it
        self._disk: dict[str, _Share] = {}  # {folder: what was written there}
        self.pid = 1_000_000
        self._life, self._pinned_cut = 0, -1
        self._answers: tuple[ServerAnswer, ...] = ()
        self._parked: list[tuple[Reader, int, Pull | PullRows]] = []
        self._begin()

    # ------------------------------------------------------------ the data side

    def ask(self, reader: Reader, number: int, message: Message) -> None:
        """A trainer sends a request to all servers."""
        agenda = self._agenda
        now_s = agenda.now_s
        size, share = self._pushed if _has_numbers(message) else _NO_NUMBERS
        # Its own cable carries all shares, one behind the other; a server's only one.
        pushed_s = reader.pushed_s
        reader.pushed_s = pushed_s = (max(now_s, pushed_s)) + size * self._byte_s
        come_s = now_s + self._latency_s
        received_s = self.inward.take(come_s, share * self._byte_s)
        self.bytes_in += int(share)
        self.num_messages += 1
        arrives_s = max(received_s, pushed_s + self._latency_s)
        agenda.at(arrives_s, self._arrive, self._life, reader, number, message)

    def _arrive(self, life: int, reader: Reader, number: int, message: Message) -> None:
        if life != self._life or not self._is_alive:
            gone_s = self._agenda.now_s + self._latency_s
            self._agenda.at(gone_s, reader.got, number, SERVER, GONE)
            return
        if isinstance(message, Push):
            self._push(reader, number, message)
        elif isinstance(message, _READS):
            self._pull(reader, number, message)
        else:
            served_s = self.cpu.take(self._agenda.now_s, self._plan.server_s)
            self._answer(reader, number, Done(), served_s, 0)

    def _push(self, reader: Reader, number: int, push: Push) -> None:
        state, now_s, plan = self._state, self._agenda.now_s, self._plan
        decision = state.push(push)
        verdict = decision.verdict
        if verdict == "refuse":
            assert decision.refusal is not None
            self._answer(reader, number, decision.refusal, now_s, 0)
            return
        served_s = self.cpu.take(now_s, plan.server_s)
        if verdict == "repeat":
            self._answer(reader, number, _APPLIED, served_s, 0)
            return
        version = state.stands_at(push.part).version
        if verdict == "apply":
            assert decision.last is not None, f"{decision} has numbers that follow"
            decision.last.is_settled = True
            served_s = self._apply(served_s)
            self._gauge.aged(version - 1 - reader.base)
            self.num_pushes += 1
        elif push.is_judged and verdict in {"void", "again"}:
            self._gauge.aged(version - reader.base)
            self.num_pushes += 1
            self.num_old += 1
        elif verdict == "prepare":
            self._gauge.aged(version - reader.base)
            self.num_pushes += 1
        said = _SAID.get(verdict, verdict)
        reply = Pushed(verdict=said, version=version)  # type: ignore[arg-type]  # spelled above
        self._answer(reader, number, reply, served_s, 0)

    def _apply(self, served_s: float) -> float:
        """Apply one push, alone or with others that wait; when that is over."""
        starts_s, merged = self._merging
        if starts_s > self._agenda.now_s and merged < self._most_merged:
            self._merging = (starts_s, merged + 1)
            return self.cpu.lengthen(self._add_s)
        self._merging = (served_s, 1)
        return self.cpu.lengthen(self._apply_s)

    def _pull(self, reader: Reader, number: int, pull: Pull | PullRows) -> None:
        state = self._state
        refusal = state.refusal_of(pull)
        if refusal is None and not state.has_part(pull.part):
            refusal = Refusal(kind="not_ready", text="no such part yet")
        if refusal is not None:
            self._answer(reader, number, refusal, self._agenda.now_s, 0)
            return
        stands = state.stands_at(pull.part)
        if stands.applied_round < pull.at_round:
            self._parked.append((reader, number, pull))
            return
        served_s = self.cpu.take(self._agenda.now_s, self._plan.server_s)
        reader.base = stands.version
        if isinstance(pull, Pull):
            reply: Message = Pulled(
                slots=(), round=stands.applied_round, version=stands.version
            )
            size = self._plan.parameter_bytes
        else:
            reply = PulledRows(version=stands.version, round=stands.applied_round)
            size = self._plan.row_bytes
        self._answer(reader, number, reply, served_s, size)

    def _answer(
        self, reader: Reader, number: int, reply: Message, ready_s: float, size: int
    ) -> None:
        share = size / self._plan.servers + HEADER_BYTES
        sent_s = self.outward.take(ready_s, share * self._byte_s)
        self.bytes_out += int(share)
        self.num_messages += 1
        reader.in_free_s = max(ready_s, reader.in_free_s) + size * self._byte_s
        lands_s = max(sent_s, reader.in_free_s) + self._latency_s
        self._agenda.at(lands_s, self._land, self._life, reader, number, reply)

    def _land(self, life: int, reader: Reader, number: int, reply: Message) -> None:
        reader.got(number, SERVER, reply if life == self._life else GONE)

    # ------------------------------------------------------------ the control side

    def got(self, number: int, role: str, reply: Message) -> None:
        """Orders are here."""
        if number != self._life or not self._is_alive:
            return
        assert isinstance(reply, Orders), f"{role} says {reply}"
        self._incarnation = reply.incarnation
        self._carry_out(number, list(reply.orders))

    def _carry_out(self, life: int, orders: list[Order]) -> None:
        """Carry out orders, one after the other; some take their time."""
        if life != self._life or not self._is_alive:
            return
        now_s = self._agenda.now_s
        while orders:
            order = orders.pop(0)
            if isinstance(order, CommitRound):
                # Rounds that are applied already cost nothing, and change nothing.
                adds_s = len(order.contributions) * self._add_s
                done_s = self.cpu.take(now_s, adds_s + self._apply_s)
                self._agenda.at(done_s, self._commit, life, order, orders)
                return
            self._execute(order)
        pause_s = PAUSE_S if self._is_waiting else 0.0
        self._agenda.at(now_s + pause_s, self._report, life)

    def _commit(self, life: int, order: CommitRound, orders: list[Order]) -> None:
        if life != self._life or not self._is_alive:
            return
        self._state.commit_round(order)
        parked, self._parked = self._parked, []
        for reader, number, pull in parked:
            self._pull(reader, number, pull)
        self._carry_out(life, orders)

    def _execute(self, order: Order) -> None:
        state = self._state
        self._is_waiting = False
        if isinstance(order, CreatePart):
            state.create_part(order.plan)
        elif isinstance(order, Fence):
            report = state.fence(order)
            self._is_waiting = report is None
            self._answers += () if report is None else (report,)
        elif isinstance(order, Snapshot):
            self._snapshot(order)
        elif isinstance(order, Restore):
            self._restore(order)
        elif isinstance(order, TakePaces):
            self._take_paces(order)
        elif isinstance(order, SendMarks):
            self._answers += (state.marks_report(),)
        elif isinstance(order, Forget):
            state.forget(order)
            kept = {f: share for f, share in self._disk.items() if share.cut >= order.cut}
            self._disk = kept

    def _snapshot(self, order: Snapshot) -> None:
        state = self._state
        if self._pinned_cut == order.cut or not state.may_snapshot(order.rounds):
            self._is_waiting = True
            return
        self._pinned_cut = order.cut
        versions = {part: report.version for part, report in state.parts().items()}
        marks, voids = state.export_marks(), state.export_voids()
        self._disk[order.folder] = _Share(order.cut, marks, versions, voids)
        # The first cut holds what was just sent, and is waited for.
        writes_s = 0.0 if order.cut <= 1 else self._plan.write_s
        moment_s = self._agenda.now_s + writes_s
        self._agenda.at(moment_s, self._written, self._life, state.timeline, order.cut)

    def _written(self, life: int, timeline: int, cut: int) -> None:
        if life == self._life and self._is_alive and self._state.timeline == timeline:
            entry = FileEntry(f"{SERVER}.safetensors", 0, "")
            self._answers += (CutReport(cut=cut, files=(entry,)),)
            self._report(life)

    def _take_paces(self, order: TakePaces) -> None:
        if order.timeline == self._state.timeline:
            return
        self._state.begin_paces(order)
        self._let_go()
        self._state.end_paces(order)
        self._most_merged = max(pushes_per_update(p.spec.pace) for p in order.plans)

    def _restore(self, order: Restore) -> None:
        self._pinned_cut = -1
        self._state.begin_restore(order)
        self._let_go()
        share = _Share(0, {}, {}) if order.folder is None else self._disk[order.folder]
        self._state.end_restore(order, share.marks, share.versions, share.voids)

    def _report(self, life: int) -> None:
        if life != self._life or not self._is_alive:
            return
        state = self._state
        report = ServerReport(
            server=SERVER,
            incarnation=self._incarnation,
            timeline=state.timeline,
            address=SERVER,
            pid=self.pid,
            host="forecast",
            ready=state.is_ready,
            parts=state.parts(),
            answers=self._answers,
            forgotten_cut=state.forgotten_cut,
            pinned_cut=self._pinned_cut,
        )
        self._answers = ()  # no message is lost here
        self._coordinator.ask(SERVER, report, self, life)

    # ------------------------------------------------------------ dying

    def die(self) -> None:
        """One of the servers dies: whoever waits for it waits in vain."""
        self._is_alive = False
        self._let_go()

    def _let_go(self) -> None:
        """Whoever waits for values does so in vain."""
        for reader, number, _ in self._parked:
            self._agenda.at(self._agenda.now_s, reader.got, number, SERVER, GONE)
        self._parked = []

    def come_back(self) -> None:
        """A new process takes its place."""
        self.pid += 1
        self._begin()

    def _begin(self) -> None:
        self._life += 1
        self._is_alive = True
        self._state = ServerState(SERVER)
        self._incarnation = 0
        self._answers = ()
        self._pinned_cut = -1
        self._is_waiting = False
        self._parked = []
        self._report(self._life)


GONE = Lost("the server is gone")


def _has_numbers(message: Message) -> bool:
    return type(message) is Push and not message.is_void


_READS = (Pull, PullRows)
_SAID = {"apply": "applied", "prepare": "prepared"}
_NO_NUMBERS = (0, float(HEADER_BYTES))

"""A coordinator and servers for one trainer, without threads: answers on the spot.

Servers keep their numbers in real shards, so what a trainer pushes really changes what it
pulls. Every message is noted; a test can lose some, or leave the timeline.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

import msgspec
import numpy as np
import torch

from paceline.config import Pace, Sync
from paceline.errors import PeerLost
from paceline.ids import COORDINATOR, TaskKey
from paceline.messages.data import (
    AskTracked,
    KeepFrozen,
    KeepTracked,
    Pull,
    PulledRows,
    PullRows,
    Push,
    PushEarly,
    Pushed,
    Tracked,
    Upload,
)
from paceline.messages.server import PartReport
from paceline.messages.shared import (
    Done,
    Lease,
    Message,
    PartPlan,
    Refusal,
    StageSpec,
    TrainerMessage,
    Waiting,
)
from paceline.messages.trainer import (
    AskLease,
    AskRecords,
    Beat,
    Beaten,
    BeginStage,
    Claimed,
    ClaimOnce,
    FailTask,
    Granted,
    HandBack,
    Joined,
    JoinTrainer,
    PartAnswer,
    Records,
    Save,
    Saved,
    SharePart,
    StageOver,
    Stop,
    Tick,
    Ticked,
)
from paceline.messages.values import ClaimValues, SetValues, ValuesClaimed
from paceline.messages.waits import Wait
from paceline.params.blocks import cut_blocks
from paceline.params.shard import ParameterShard
from paceline.params.sparse import SparseGradient
from paceline.server.requests import read_early, read_together
from paceline.server.requests.decoding import coded_block_bytes, decode_push
from paceline.server.requests.early_gradients import EarlyGradients
from paceline.server.requests.layouts import layout_of
from paceline.server.slots.block_reads import BlockReads
from paceline.store.blobs.blobs import digest
from paceline.timing import ManualClock
from paceline.trainer.client import Courier
from paceline.trainer.peers import PeerWires
from paceline.trainer.seating import take_seat
from paceline.trainer.session import Session
from paceline.transport.frames import Buffer
from tests.trainer.fake_connection import FakeConnection
from tests.trainer.fake_rows import coded_rows, cut_ids

NUM_ROW_SLOTS = 4
Sent = tuple[str, Message]


@final
class FakeJob:
    """All other roles of a job with one trainer."""

    def __init__(self, servers: int = 1, pace: Pace | None = None) -> None:
        self.pace = pace or Sync()
        self.clock = ManualClock()
        self.prefix = "fake:"  # of servers' addresses
        self.servers = [f"server-{index}" for index in range(servers)]
        self.shards = {server: ParameterShard() for server in self.servers}
        self.early = {server: EarlyGradients() for server in self.servers}
        self.plans: dict[int, PartPlan] = {}
        self.sent: list[Sent] = []
        self.pushed: list[tuple[Push, list[bytes]]] = []  # as they came, lost or not
        self.bytes: list[tuple[Message, int, int]] = []  # a message, its, its reply's
        self.lose: Callable[[str, Message], bool] = lambda _role, _message: False
        self.timeline = self.returned = 0
        self.num_trainers = 1  # that the coordinator tells of
        self.cut = 1  # number of the last committed one
        self.undone: tuple[tuple[int, int], ...] = ()
        self.incarnation = 0
        self.trainers = 1  # of the job
        self.stage: StageSpec | None = None
        self.todo: list[tuple[TaskKey, int]] = []
        self.held: dict[int, Lease] = {}
        self.edges: tuple[int, ...] = ()
        self.stopped: str | None = None
        self.records = 0
        self.connections = 0
        self.wants_track = False  # with the next answer to a tick
        self.tracked: int | None = None  # what the next lease says
        self.states: dict[int, bytes] = {}  # {number: a kept state}
        self.waits: list[Callable[[FakeJob], Waiting]] = []  # before the end of the stage
        self.tracked_at_end: int | None = None
        self.folder = Path("nowhere")  # what is written there goes below
        self._tokens = 0
        self._rounds: dict[int, int] = {}
        self._prepared: dict[tuple[str, int], tuple[Push, list[np.ndarray]]] = {}

    def session(self, timeout_s: float = 5.0, peers: PeerWires | None = None) -> Session:
        courier = Courier(
            lambda _: FakeConnection(self, COORDINATOR),
            lambda address, _: FakeConnection(self, address.removeprefix(self.prefix)),
        )
        seat = take_seat("trainer-0", courier, self.clock, timeout_s, peers=peers)
        return Session(seat, self.folder)

    def of(self, kind: type[Message]) -> list[Message]:
        return [message for _, message in self.sent if isinstance(message, kind)]

    def leave_timeline(self) -> None:
        """As after the loss of a server: everything open is void, the queue begins anew."""
        self.timeline += 1
        self.returned = self.timeline
        self._prepared.clear()
        self.early = {server: EarlyGradients() for server in self.servers}
        self.held.clear()
        if self.stage is not None:
            self._fill(self.stage)

    def must_park(self, message: Message) -> bool:
        """Whether it is answered only when its round is applied."""
        if not isinstance(message, Pull | PullRows):
            return False
        return message.at_round > self._rounds.get(message.part, 0)

    def answer(
        self, role: str, message: Message, buffers: list[np.ndarray]
    ) -> tuple[Message, Sequence[Buffer]]:
        self.sent.append((role, message))
        if isinstance(message, Push):
            stop = len(buffers) - (len(message.behind.rows) if message.behind else 0)
            self.pushed.append((message, [buffer.tobytes() for buffer in buffers[:stop]]))
        if self.lose(role, message):
            raise PeerLost(f"{role}: lost {type(message).__name__}")
        is_bound = isinstance(message, TrainerMessage) and not isinstance(message, Beat)
        if is_bound and message.timeline != self.timeline:
            text = f"timeline {message.timeline} was left"
            return Refusal(kind="timeline", text=text, timeline=self.timeline), ()
        if role == COORDINATOR:
            return self._coordinate(message), ()
        return self._serve(role, message, buffers)

    # ------------------------------------------------------------ coordinator

    def _coordinate(self, message: Message) -> Message:  # noqa: C901  (a case each)
        match message:
            case JoinTrainer(previous=previous):
                return self._join(previous)
            case SharePart(spec=spec):
                is_new = spec.part not in self.plans
                if is_new:
                    self._create(message)
                elif self.plans[spec.part].spec != spec:
                    return Refusal(kind="mismatch", text="another part", timeline=0)
                return PartAnswer(plan=self.plans[spec.part], upload=is_new)
            case BeginStage(spec=spec):
                if self.stage != spec:
                    self.stage = spec
                    self._fill(spec)
                return Done()
            case AskLease():
                if not self.todo and self.waits:
                    return self.waits.pop(0)(self)
                return self._lease() or StageOver(
                    stopped=self.stopped, cut=self.cut, tracked=self.tracked_at_end
                )
            case Tick():
                return self._tick(message)
            case HandBack() | FailTask() as gone:
                tokens = gone.tokens if isinstance(gone, HandBack) else (gone.token,)
                acked = gone.acked if isinstance(gone, HandBack) else (gone.acked,)
                for token, last in zip(tokens, acked, strict=True):
                    lease = self.held.pop(token)
                    if isinstance(gone, HandBack) and self.stopped is None:
                        self.todo.insert(0, (lease.key, last + 1))
                return Done()
            case Beat():
                return Beaten(timeline=self.timeline, stopped=self.stopped)
            case Stop(reason=reason):
                self.stopped, self.todo = reason, []
                return Done()
            case ClaimOnce():
                return Claimed(mine=len(self.of(ClaimOnce)) == 1)
            case ClaimValues(call=call):
                is_alone = call or self.num_trainers == 1
                verdict = "yours" if is_alone else "several"
                return ValuesClaimed(verdict=verdict, trainers=self.num_trainers)
            case Save():
                return Saved(cut=self.cut)
            case AskRecords():
                return Records(records=self.records, trainers=self.trainers)
            case _:
                return Done()

    def _join(self, previous: int | None) -> Joined:
        self.incarnation = previous or self.incarnation + 1
        return Joined(
            incarnation=self.incarnation,
            timeline=self.timeline,
            generation=1,
            pace=self.pace,
            seed=0,
            servers={server: f"{self.prefix}{server}" for server in self.servers},
            beat_s=1.0,
            undone=self.undone,
            returned=self.returned,
            trainers=self.trainers,
        )

    def _create(self, message: SharePart) -> None:
        spec = message.spec
        blocks = cut_blocks(
            spec.parameters, len(self.servers), first_slot=100 * spec.part, min_block=4
        )
        first_row = 100 * spec.part + len(blocks)
        num_rows = NUM_ROW_SLOTS if spec.tables else 0
        slots = [*(block.slot for block in blocks), *range(first_row, first_row + num_rows)]
        placement = {
            slot: self.servers[index % len(self.servers)]
            for index, slot in enumerate(slots)
        }
        plan = PartPlan(spec, blocks, first_row, num_rows, placement)
        self.plans[spec.part] = plan
        for server, shard in self.shards.items():
            shard.create(plan, server, 0)

    def _fill(self, spec: StageSpec) -> None:
        self.todo = [
            (TaskKey(spec.stage, epoch, task), 0)
            for epoch in range(spec.epochs)
            for task in range(spec.num_tasks())
        ]

    def _lease(self) -> Granted | None:
        if not self.todo:
            return None
        (key, first) = self.todo.pop(0)
        self._tokens += 1
        rounds = {part: self._rounds.get(part, 0) + 1 for part in self.plans}
        lease = Lease(self._tokens, key, first, self.edges, rounds, self.tracked)
        self.held[lease.token] = lease
        return Granted(lease=lease)

    def _tick(self, tick: Tick) -> Ticked:
        if tick.round is not None:
            for server in self.servers:
                self._apply(server, *self._prepared.pop((server, tick.part)))
            self._rounds[tick.part] = tick.round
        if tick.part == max(self.plans):
            self.records += tick.records
            for token, lease in list(self.held.items()):
                assert self.stage is not None
                for span in tick.window.spans:
                    is_last = span.last == self.stage.num_batches(span.task) - 1
                    if span.task == lease.key.task and is_last:
                        del self.held[token]
        lease = self._lease() if tick.next_lease else None
        wants_track, self.wants_track = self.wants_track, False
        granted = None if lease is None else lease.lease
        return Ticked(lease=granted, stopped=self.stopped, track=wants_track)

    # ------------------------------------------------------------ servers

    def _serve(  # noqa: C901  (a case each)
        self, server: str, message: Message, buffers: list[np.ndarray]
    ) -> tuple[Message, Sequence[Buffer]]:
        shard = self.shards[server]
        match message:
            case Upload(slots=slots):
                for slot, values in zip(slots, buffers, strict=True):
                    shard.upload(slot, values)
                return Done(), ()
            case SetValues(slots=slots):
                for slot, values in zip(slots, buffers, strict=True):
                    shard.upload(slot, values)
                return Pushed(verdict="applied", version=0), ()
            case Pull(part=part, known=known):
                blocks = layout_of(self.plans[part], server).blocks
                sizes = {s: coded_block_bytes(blocks[s]) for s in blocks}
                places = {s: np.empty(n, np.uint8) for s, n in sizes.items()}
                unknown = {s: place for s, place in places.items() if s not in known}
                codecs = {s: b.value_codec for s, b in blocks.items() if b.value_codec}
                reads = BlockReads(shard, unknown, known, codecs, lambda: True)
                for slot in reads.slots:
                    reads.copy(slot)
                return reads.answer(PartReport(0, 0))
            case KeepFrozen(beside=beside, first=0, stop=stop):
                assert (stop, digest(*buffers)) == (beside.bytes, beside.xxh3)
                return Done(), ()
            case KeepTracked(number=number):
                self.states[number] = buffers[0].tobytes()
                return Done(), ()
            case AskTracked(number=number):
                return Tracked(), [np.frombuffer(self.states[number], np.uint8)]
            case PullRows(part=number, rows=(rows,), create=create):
                [ids] = buffers
                gathered = [
                    shard.rows[slot][rows.table].gather(part, create)
                    for slot, part in cut_ids(rows.slots, rows.counts, ids.view(np.int64))
                ]
                rows_of = coded_rows(self.plans[number], np.concatenate(gathered))
                return PulledRows(version=0, round=0), [rows_of]
            case Push(behind=PullRows() as behind, round=None):
                stop = len(buffers) - len(behind.rows)
                pushed = self._push(server, message, buffers[:stop])
                if not isinstance(pushed, Pushed):
                    return pushed, ()
                self.sent.append((server, behind))
                pulled, values = self._serve(server, behind, buffers[stop:])
                assert isinstance(pulled, PulledRows)
                return Pushed(verdict="applied", version=0, behind=pulled), values
            case Push() | PushEarly():
                return self._push(server, message, buffers), ()
            case _:
                raise AssertionError(f"{server} does not know {message}")

    def _push(
        self, server: str, message: Push | PushEarly, buffers: list[np.ndarray]
    ) -> Message:
        staged = self.early[server]
        if isinstance(message, PushEarly):
            layout = layout_of(self.plans[message.part], server)
            is_in = staged.stage(message, read_early(layout, message, buffers))
            return Done() if is_in else Waiting(wait=Wait("servers", "no room"))
        if message.together:
            layout = layout_of(self.plans[message.part], server)
            blocks, _ = read_together(layout, message, buffers)
            alone = [gradient.view(torch.uint8).numpy() for gradient in blocks.values()]
            buffers = [*alone, *buffers[len(message.together) :]]
            message = msgspec.structs.replace(message, together=())
        found = staged.take(message)
        if found is None:
            return Waiting(wait=Wait("servers", "not all that the push names is here"))
        early = [gradient.view(torch.uint8).numpy() for gradient in found.values()]
        slots = (*found, *message.blocks)
        push = msgspec.structs.replace(message, blocks=slots, early={})
        if push.round is None:
            self._apply(server, push, [*early, *buffers])
            return Pushed(verdict="applied", version=0)
        self._prepared[server, push.part] = (push, [*early, *buffers])
        return Pushed(verdict="prepared", version=0)

    def _apply(self, server: str, push: Push, buffers: list[np.ndarray]) -> None:
        shard, spec = self.shards[server], self.plans[push.part].spec
        parameter_of = {b.slot: b.parameter for b in self.plans[push.part].blocks}
        layout = layout_of(self.plans[push.part], server)
        plain, _ = decode_push(layout, push, buffers)
        waiting = iter(plain[: len(plain) - len(push.then)])
        for slot in push.blocks:
            block = shard.blocks[slot]
            gradient = torch.from_numpy(next(waiting)).view(block.values.dtype)
            block.apply(gradient, push.hyper[spec.parameters[parameter_of[slot]].group])
        for slot in push.sparse_blocks:
            values, parameter = shard.blocks[slot].values, parameter_of[slot]
            numbers, rows_of = next(waiting), next(waiting)
            gradient = SparseGradient.of(numbers, rows_of, values.dtype, values.shape[1])
            group = spec.parameters[parameter].group
            shard.apply_sparse(slot, gradient, push.hyper[group])
        for rows in push.rows:
            ids = next(waiting).view(np.int64)
            gradients = next(waiting).view(np.float32).reshape(len(ids), -1)
            start = 0
            for slot, part in cut_ids(rows.slots, rows.counts, ids):
                table = shard.rows[slot][rows.table]
                table.apply(part, gradients[start : start + len(part)])
                start += len(part)
        assert not list(waiting), "buffers that no field speaks of"

"""A server under test: its coordinator says what the test says, trainers call directly."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
import torch

from paceline.config import SGD, Async, JobConfig, Pace, RowInit, RowOptimizer, Zeros
from paceline.ids import COORDINATOR, Span, TaskKey, Window
from paceline.messages.data import Pull, Pulled, PulledRows, PullRows, Push, Pushed
from paceline.messages.locking import RowSlots
from paceline.messages.server import CommitRound, CreatePart, Order, Orders, ServerReport
from paceline.messages.shared import (
    Contribution,
    Hyper,
    Message,
    OptimizerSpec,
    ParameterSpec,
    PartPlan,
    PartSpec,
    Refusal,
    TableSpec,
)
from paceline.params.blocks import cut_blocks
from paceline.params.rows.initial import table_key
from paceline.server.service import ServerService
from paceline.store.blobs.blobs import BlobStore
from paceline.timing import Clock, Deadline, SystemClock
from paceline.transport.connection import Connection
from paceline.transport.frames import CONTROL_LIMITS
from paceline.transport.handshake import Hello, HelloCheck
from paceline.transport.listener import Listener
from paceline.transport.opening import connect, listen
from paceline.transport.service import Peer, Reply
from tests.params.rows.compiled.reference import group_by_slot

CLOCK = SystemClock()
PATIENCE_S = 10.0
INCARNATION = 7
SGD_1: OptimizerSpec = OptimizerSpec("SGD", ({"lr": 1.0},))
Array = np.ndarray[Any, np.dtype[Any]]


def make_plan(
    *,
    pace: Pace | None = None,
    optimizer: OptimizerSpec = SGD_1,
    rows: RowOptimizer | None = None,
    init: RowInit | None = None,
    placement: Callable[[int], str] = lambda slot: "server-0",  # noqa: ARG005
    dtype: str = "float64",
) -> PartPlan:
    """Part 0: parameters of 6 and 4 elements in slots 0 and 1, a table in slots 2 to 4."""
    spec = PartSpec(
        part=0,
        parameters=(
            ParameterSpec(("w",), (3, 2), dtype),
            ParameterSpec(("b",), (4,), dtype),
        ),
        optimizer=optimizer,
        tables=(TableSpec("user", 2, rows or SGD(lr=1.0), init or Zeros()),),
        pace=pace or Async(),
    )
    blocks = cut_blocks(spec.parameters, 1, first_slot=0)
    return PartPlan(spec, blocks, 2, 3, {slot: placement(slot) for slot in range(5)})


def window(first: int, last: int | None = None, task: int = 0) -> Window:
    """Batches ``first..last`` of a task of epoch 0."""
    return Window(0, 0, (Span(task, first, first if last is None else last),))


def task_key(task: int = 0) -> TaskKey:
    """The key of a task of epoch 0."""
    return TaskKey(0, 0, task)


class Rows(NamedTuple):
    """Ids (n,) and gradients (n, 2) of the table."""

    ids: Sequence[int]
    gradients: Array


def group(ids: Sequence[int]) -> tuple[Array, RowSlots]:
    """The order in which ids travel, and where they lie."""
    found = group_by_slot(np.array(ids, np.int64), table_key("user"), 3)
    order, slots, counts = found
    return order, RowSlots("user", tuple(2 + slot for slot in slots), counts)


def as_buffers(arrays: Sequence[Array]) -> list[Array]:
    """As they come from the wire: fresh, flat, writable bytes."""
    return [np.frombuffer(bytearray(a.tobytes()), np.uint8) for a in arrays]


class FakeCoordinator:
    """Keeps the last report and answers it when the test says how."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards the fields below
        self._parked: tuple[ServerReport, Reply] | None = None
        self.hellos: list[int] = []  # incarnations of the connections that reported

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: list[Array], reply: Reply
    ) -> None:
        assert isinstance(message, ServerReport)
        assert not buffers
        with self._changed:
            self.hellos.append(peer.incarnation)
            self._parked = (message, reply)
            self._changed.notify_all()

    def disconnected(self, peer: Peer) -> None:
        pass

    def order(self, *orders: Order, until: Callable[[ServerReport], bool]) -> ServerReport:
        """Answer reports with these orders until one is as wanted; that stays parked."""
        deadline = Deadline(CLOCK, PATIENCE_S)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._parked is not None, PATIENCE_S)
                assert self._parked is not None, "the server does not report"
                report, reply = self._parked
                if until(report):
                    return report
                self._parked = None
            assert not deadline.is_over(), f"not as wanted: {report}"
            reply(Orders(incarnation=INCARNATION, orders=orders))

    def order_last(self, *orders: Order) -> None:
        """Answer one report with orders after which the server ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._parked is not None, PATIENCE_S)
            assert self._parked is not None, "the server does not report"
            _, reply = self._parked
            self._parked = None
        reply(Orders(incarnation=INCARNATION, orders=orders))


class Answered:
    """A reply to be waited for."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.message: Message | None = None
        self.buffers: list[Array] = []

    def __call__(self, message: msgspec.Struct, buffers: Sequence[Any] = ()) -> None:
        assert isinstance(message, Message)
        assert self.message is None, "answered twice"
        self.buffers = [np.array(buffer) for buffer in buffers]
        self.message = message
        self._event.set()

    def is_given(self) -> bool:
        return self._event.is_set()

    def wait(self) -> Message:
        assert self._event.wait(PATIENCE_S), "no answer"
        assert self.message is not None
        return self.message


class Server:
    """A `ServerService` with a fake coordinator, and a trainer's way to it."""

    def __init__(
        self,
        store: BlobStore,
        *,
        server: str = "server-0",
        clock: Clock = CLOCK,
        plan: PartPlan | None = None,
    ) -> None:
        self.server = server
        self.address = f"inproc:{server}-of-{id(self)}"
        self.timeline = 0
        self.coordinator, self._listener = self._listen()
        config = JobConfig(run="run")
        self.service = ServerService(
            server, config, "inproc:data", self._connect, store, clock
        )
        self.service.start()
        self.coordinator.order(until=lambda report: report.incarnation == INCARNATION)
        if plan is not None:
            self.plan = plan
            self.coordinator.order(CreatePart(plan=plan), until=lambda r: 0 in r.parts)

    def close(self) -> None:
        self.service.close()
        self._listener.close()

    def replace_coordinator(self) -> None:
        """The coordinator dies; another one listens at its address."""
        self._listener.close()
        self.coordinator, self._listener = self._listen()

    # ------------------------------------------------------------ a trainer's side

    def submit(
        self, message: Message, arrays: Sequence[Array] = (), trainer: int = 11
    ) -> Answered:
        answered = Answered()
        peer = Peer(f"trainer-{trainer}", "run", trainer, trainer)
        self.service.received(peer, message, as_buffers(arrays), answered)
        return answered

    def ask(
        self, message: Message, arrays: Sequence[Array] = (), trainer: int = 11
    ) -> Message:
        return self.submit(message, arrays, trainer).wait()

    def push(self, number: int, pushed: Window, **what: Any) -> Message:
        """As `submit_push`; the answer."""
        return self.submit_push(number, pushed, **what).wait()

    def submit_push(
        self,
        number: int,
        pushed: Window,
        *,
        blocks: dict[int, Array] | None = None,
        rows: Rows | None = None,
        trainer: int = 11,
        round: int | None = None,  # noqa: A002
        hyper: Hyper | None = None,
        **guarded: Any,
    ) -> Answered:
        blocks = blocks or {}
        arrays = list(blocks.values())
        entries: tuple[RowSlots, ...] = ()
        if rows is not None:
            order, entry = group(rows.ids)
            entries = (entry,)
            ids = np.array(rows.ids, np.int64)[order]
            arrays += [ids, np.asarray(rows.gradients, np.float32)[order]]
        then: dict[int, Array] = guarded.pop("then", {})
        arrays += list(then.values())
        agreed = self.plan.spec.optimizer
        assert agreed is not None
        message = Push(
            incarnation=trainer,
            timeline=self.timeline,
            part=0,
            number=number,
            window=pushed,
            records=1,
            round=round,
            hyper=(hyper,) if hyper is not None else agreed.groups,
            blocks=tuple(blocks),
            rows=entries,
            then=tuple(then),
            **guarded,  # base, is_void, is_judged
        )
        return self.submit(message, arrays, trainer)

    def pull(self) -> dict[int, Array]:
        """The values of the dense slots, float64."""
        answered = self.submit(Pull(incarnation=99, timeline=self.timeline, part=0))
        message = answered.wait()
        assert isinstance(message, Pulled), message
        values = [buffer.view(np.float64) for buffer in answered.buffers]
        return dict(zip(message.slots, values, strict=True))

    def pull_rows(self, ids: Sequence[int], *, create: bool = False) -> Array:
        """Rows (n, 2) in the order of ``ids``."""
        order, entry = group(ids)
        message = PullRows(
            incarnation=99, timeline=self.timeline, part=0, rows=(entry,), create=create
        )
        answered = self.submit(message, [np.array(ids, np.int64)[order]])
        answered.wait()
        rows = np.empty((len(ids), 2), np.float32)
        rows[order] = answered.buffers[0].view(np.float32).reshape(-1, 2)
        return rows

    # ------------------------------------------------------------ the coordinator's side

    def commit(self, round_: int, *contributions: Contribution) -> ServerReport:
        order = CommitRound(part=0, round=round_, contributions=contributions)
        return self.coordinator.order(
            order, until=lambda report: report.parts[0].applied_round >= round_
        )

    def version(self) -> int:
        """Updates applied so far, as trainers are told."""
        who = {"incarnation": 99, "timeline": self.timeline}
        message = self.ask(PullRows(**who, part=0, rows=(), create=False))
        assert isinstance(message, PulledRows)
        return message.version

    def _listen(self) -> tuple[FakeCoordinator, Listener]:
        coordinator = FakeCoordinator()
        listener = listen(
            self.address,
            coordinator,
            hello_check=HelloCheck("run", COORDINATOR, {"server"}),
            request_type=lambda _: ServerReport,
            clock=CLOCK,
            limits=CONTROL_LIMITS,
        )
        return coordinator, listener

    def _connect(self, incarnation: int) -> Connection:
        hello = Hello(run="run", role=self.server, incarnation=incarnation)
        return connect(self.address, hello, Orders | Refusal, CONTROL_LIMITS, CLOCK, 1.0)


def contribution(
    number: int, pushed: Window, weight: float, trainer: int = 11
) -> Contribution:
    """One trainer's part in a round."""
    return Contribution(f"trainer-{trainer}", trainer, number, pushed, 1, weight)


def verdict(message: Message) -> str:
    """What became of a push: applied, prepared, duplicate, or the kind of refusal."""
    if isinstance(message, Refusal):
        return message.kind
    assert isinstance(message, Pushed), message
    return message.verdict


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path / "checkpoints"))


@pytest.fixture
def make_server(store: BlobStore) -> Iterator[Callable[..., Server]]:
    """Makes servers; afterwards no thread of theirs is left."""
    before = set(threading.enumerate())
    servers: list[Server] = []

    def make(**arguments: Any) -> Server:
        server = Server(store, **arguments)
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.close()
    assert set(threading.enumerate()) <= before


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors need no pool of threads, and the machine is shared."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)

"""A thousand trainers that compute nothing, in one thread; and the server they need.

Each has one connection and one request on its way; the next follows the reply. All are
read by one epoll, and what they say is encoded by the product's own frames.

Waits: for replies, `ANSWER_S` at most.
"""

import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

import msgspec

from benchmarks.scale.coordinator_process import RUN
from paceline.config import Async
from paceline.ids import Span, TaskKey, Window
from paceline.launch.job.wiring import Wires
from paceline.messages.server import (
    CreatePart,
    CutReport,
    FileEntry,
    Orders,
    PartReport,
    ServerAnswer,
    ServerReport,
    Snapshot,
)
from paceline.messages.shared import Lease, ParameterSpec, PartSpec, StageSpec, Waiting
from paceline.messages.trainer import (
    AskLease,
    BeginStage,
    Granted,
    Joined,
    JoinTrainer,
    PartUploaded,
    SharePart,
    Tick,
    Ticked,
    TrainerReply,
)
from paceline.timing import SystemClock
from paceline.transport.connection import Connection
from paceline.transport.frames import CONTROL_LIMITS, Header, Kind, Preamble, encode_frame
from paceline.transport.handshake.handshake import Hello, Welcome
from paceline.transport.streams.receiving import Frame, FrameReader, Placed

ANSWER_S = 60.0
PART = PartSpec(0, (ParameterSpec(("w",), (8,), "float32"),), None, (), Async())
FILE_BYTES = 1024  # of the server's share of a cut
_reply_decoder: msgspec.msgpack.Decoder[msgspec.Struct] = msgspec.msgpack.Decoder(
    TrainerReply | Welcome
)


@final
class LightTrainer:
    """One connection, one request on its way."""

    def __init__(self, address: str, number: int) -> None:
        """Connect and say hello; the answer is the first frame that comes."""
        self.name = f"trainer-{number}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(address.removeprefix("unix:"))
        self.socket.setblocking(False)
        self.incarnation = 0
        self.lease: Lease | None = None
        self.batch = 0
        self._number = 0
        self._reader = FrameReader(CONTROL_LIMITS, _place)
        self.say(Hello(run=RUN, role=self.name), Kind.HELLO)

    def say(self, message: msgspec.Struct, kind: Kind = Kind.REQUEST) -> None:
        """Send a request; its answer is the next frame that comes."""
        self._number += 1
        pieces = encode_frame(kind, self._number, message, (), CONTROL_LIMITS)
        self.socket.sendall(b"".join(pieces))

    def hear(self) -> msgspec.Struct | None:
        """The answer, if it is there.

        Raises:
            RuntimeError: it is no answer.
        """
        frame: Frame | None = self._reader.receive(self.socket)
        if frame is None:
            return None
        if frame.kind is Kind.ERROR or frame.message is None:
            raise RuntimeError(f"{self.name} was turned away: {frame}")
        return frame.message

    def join(self) -> None:
        """Become a member."""
        self.say(JoinTrainer(trainer=self.name, pid=1, host="here"))

    def share(self) -> None:
        """Ask for the one part."""
        self.say(SharePart(incarnation=self.incarnation, timeline=0, spec=PART))

    def ask_lease(self) -> None:
        """Ask for work."""
        self.say(AskLease(incarnation=self.incarnation, timeline=0, stage=0))

    def tick(self) -> None:
        """Report the next batch of the lease."""
        lease = self.lease
        assert lease is not None
        key, batch = lease.key, self.batch
        tick = Tick(
            incarnation=self.incarnation,
            timeline=0,
            part=0,
            number=batch + 1,
            window=Window(key.stage, key.epoch, (Span(key.task, batch, batch),)),
            records=1,
            acked=(batch,),
            next_lease=True,
        )
        self.say(tick)
        self.batch += 1

    def take(self, reply: msgspec.Struct) -> None:
        """Remember what the answer brings."""
        if isinstance(reply, Joined):
            self.incarnation = reply.incarnation
        lease = reply.lease if isinstance(reply, Granted | Ticked) else None
        if lease is not None:
            self.lease, self.batch = lease, lease.first


def _place(preamble: Preamble, header: Header) -> Placed:
    del preamble
    return _reply_decoder.decode(header.message), []


@final
class Crowd:
    """Trainers that are read together."""

    def __init__(self, address: str, trainers: int) -> None:
        """Connect all of them, and shake hands."""
        self._epoll = select.epoll()
        self.trainers = [LightTrainer(address, number) for number in range(trainers)]
        self._by_fd = {trainer.socket.fileno(): trainer for trainer in self.trainers}
        for fd in self._by_fd:
            self._epoll.register(fd, select.EPOLLIN)
        self._hear_all(self.trainers, lambda _: None)

    def ask(self, trainer: LightTrainer, message: msgspec.Struct) -> None:
        """One says something and hears the answer; told to wait, it says it again."""
        self._hear_all([trainer], lambda one: one.say(message))

    def everyone(self, say: Callable[[LightTrainer], None]) -> None:
        """All say something, and hear the answer; who is told to wait says it again.

        Raises:
            TimeoutError: somebody hears nothing.
            RuntimeError: somebody is refused.
        """
        self._hear_all(self.trainers, say)

    def _hear_all(
        self, trainers: Sequence[LightTrainer], say: Callable[[LightTrainer], None]
    ) -> None:
        for trainer in trainers:
            say(trainer)
        missing = set(trainers)
        deadline_s = time.perf_counter() + ANSWER_S
        while missing:
            for trainer, reply in self._heard(deadline_s):
                if isinstance(reply, Waiting):
                    say(trainer)
                    continue
                trainer.take(reply)
                missing.discard(trainer)

    def keep_ticking(self, seconds: float) -> int:
        """Everybody ticks as fast as it is answered; the number of answers."""
        for trainer in self.trainers:
            trainer.tick()
        start_s = time.perf_counter()
        count, on_their_way = 0, len(self.trainers)
        while on_their_way:
            is_over = time.perf_counter() - start_s > seconds
            for trainer, reply in self._heard(start_s + seconds + ANSWER_S):
                if not isinstance(reply, Ticked):
                    raise RuntimeError(f"{trainer.name} expected `Ticked`, got {reply}")
                trainer.take(reply)
                count += not is_over
                if is_over:
                    on_their_way -= 1
                else:
                    trainer.tick()
        return count

    def pretend(self, stage: StageSpec) -> None:
        """Everybody holds a lease that nobody granted: for an echo."""
        for number, trainer in enumerate(self.trainers):
            trainer.lease = Lease(number + 1, TaskKey(stage.stage, 0, number), 0)

    def close(self) -> None:
        """Everybody hangs up."""
        for trainer in self.trainers:
            trainer.socket.close()
        self._epoll.close()

    def _heard(self, deadline_s: float) -> list[tuple[LightTrainer, msgspec.Struct]]:
        found = []
        for fd, _ in self._epoll.poll(max(0.0, deadline_s - time.perf_counter())):
            trainer = self._by_fd[fd]
            reply = trainer.hear()
            if reply is not None:
                found.append((trainer, reply))
        if not found and time.perf_counter() > deadline_s:
            raise TimeoutError(f"nothing was heard for {ANSWER_S:g} s")
        return found


@final
class LightServer:
    """Stands for a parameter server, in a thread: it obeys, and holds nothing."""

    def __init__(self, address: str) -> None:
        """Connect and begin to report; cuts go where the coordinator looks for them."""
        self._store = Path(address.removeprefix("unix:")).parent / "checkpoints"
        wires = Wires(RUN, "server-0", SystemClock())
        self._connection: Connection = wires.to_coordinator(address)(0)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="light-server")
        self._thread.start()

    def close(self) -> None:
        """Report no more and hang up."""
        self._stopping.set()
        self._thread.join()
        self._connection.close()

    def _written(self, order: Snapshot) -> CutReport:
        folder = self._store / order.folder
        folder.mkdir(parents=True)
        file = FileEntry("server-0.safetensors", FILE_BYTES, "0" * 16)
        (folder / file.name).write_bytes(bytes(FILE_BYTES))
        return CutReport(cut=order.cut, files=(file,))

    def _serve(self) -> None:
        incarnation, pinned_cut = 0, -1
        parts: dict[int, PartReport] = {}
        answers: tuple[ServerAnswer, ...] = ()
        while not self._stopping.is_set():
            report = ServerReport(
                server="server-0",
                incarnation=incarnation,
                timeline=0,
                address="",
                pid=1,
                host="here",
                ready=True,
                parts=dict(parts),
                answers=answers,
                pinned_cut=pinned_cut,
            )
            reply = self._connection.call(report, timeout_s=ANSWER_S).message
            assert isinstance(reply, Orders)
            incarnation, answers = reply.incarnation, ()
            for order in reply.orders:
                if isinstance(order, CreatePart):
                    parts[order.plan.spec.part] = PartReport(0, 0)
                elif isinstance(order, Snapshot):
                    pinned_cut = order.cut
                    answers += (self._written(order),)


def wait_at_work(crowd: Crowd, stage: StageSpec) -> None:
    """Bring everybody from its first word to where it holds a lease."""
    first = crowd.trainers[0]
    crowd.everyone(LightTrainer.join)
    crowd.ask(first, SharePart(incarnation=first.incarnation, timeline=0, spec=PART))
    crowd.ask(first, PartUploaded(incarnation=first.incarnation, timeline=0, part=0))
    crowd.everyone(LightTrainer.share)
    crowd.ask(first, BeginStage(incarnation=first.incarnation, timeline=0, spec=stage))
    crowd.everyone(LightTrainer.ask_lease)

"""A thousand trainers that compute nothing, for a coordinator; and the server they need."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

import msgspec

from benchmarks.scale.lines import ANSWER_S, RUN, Line, Lines
from paceline.config import Async
from paceline.ids import Span, TaskKey, Window
from paceline.launch.job.wiring import Wires
from paceline.messages.server import (
    CreatePart,
    CutReport,
    FileEntry,
    Forget,
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
from paceline.transport.frames import CONTROL_LIMITS
from paceline.transport.handshake import Hello, Welcome

PART = PartSpec(0, (ParameterSpec(("w",), (8,), "float32"),), None, (), Async())
FILE_BYTES = 1024  # of the server's share of a cut
_reply_decoder: msgspec.msgpack.Decoder[msgspec.Struct] = msgspec.msgpack.Decoder(
    TrainerReply | Welcome
)


@final
class LightTrainer(Line):
    """Holds at most one lease."""

    def __init__(self, address: str, number: int) -> None:
        """Connect and say hello."""
        self.incarnation = 0
        self.lease: Lease | None = None
        self.batch = 0
        hello = Hello(run=RUN, role=f"trainer-{number}")
        super().__init__(address, hello, _reply_decoder, CONTROL_LIMITS)

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


@final
class Crowd:
    """Trainers that are read together."""

    def __init__(self, address: str, trainers: int) -> None:
        """Connect all of them, and shake hands."""
        self._lines = Lines([LightTrainer(address, number) for number in range(trainers)])
        self.trainers = self._lines.all
        self.close = self._lines.close

    def everyone(
        self,
        say: Callable[[LightTrainer], None],
        trainers: Sequence[LightTrainer] | None = None,
    ) -> None:
        """All, or some, say something and hear the answer; told to wait, they say it again.

        Raises:
            TimeoutError: somebody hears nothing.
            RuntimeError: somebody is refused.
        """
        missing = set(self.trainers if trainers is None else trainers)
        for trainer in list(missing):
            say(trainer)
        while missing:
            for trainer, reply in self._lines.heard():
                if isinstance(reply, Waiting):
                    say(trainer)
                else:
                    missing.discard(trainer)

    def keep_ticking(self, seconds: float) -> int:
        """Everybody ticks as fast as it is answered; the number of answers by then."""
        return self._lines.keep(LightTrainer.tick, Ticked, seconds) - len(self.trainers)

    def pretend(self, stage: StageSpec) -> None:
        """Everybody holds a lease that nobody granted: for an echo."""
        for number, trainer in enumerate(self.trainers):
            trainer.lease = Lease(number + 1, TaskKey(stage.stage, 0, number), 0)


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
        incarnation, pinned_cut, forgotten = 0, -1, -1
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
                forgotten_cut=forgotten,
            )
            reply = self._connection.call(report, timeout_s=ANSWER_S).message
            assert isinstance(reply, Orders)
            incarnation, answers = reply.incarnation, ()
            for order in reply.orders:
                if isinstance(order, CreatePart):
                    parts[order.plan.spec.part] = PartReport(0, 0)
                elif isinstance(order, Forget):  # else it is ordered again at once
                    forgotten = order.cut
                elif isinstance(order, Snapshot):
                    pinned_cut = order.cut
                    answers += (self._written(order),)


def wait_at_work(crowd: Crowd, stage: StageSpec) -> None:
    """Bring everybody from its first word to where it holds a lease."""
    first = crowd.trainers[0]
    crowd.everyone(LightTrainer.join)
    told = {"incarnation": first.incarnation, "timeline": 0}
    for message in (SharePart(**told, spec=PART), PartUploaded(**told, part=0)):
        crowd.everyone(lambda one, message=message: one.say(message), [first])
    crowd.everyone(LightTrainer.share)
    crowd.everyone(lambda one: one.say(BeginStage(**told, spec=stage)), [first])
    crowd.everyone(LightTrainer.ask_lease)

"""Where machines come to be examined: in place of a launcher's door.

::

    listen -> this machine comes by itself, others by paceline host, or by ssh
    -> all have come, or time is up -> each finds out what it is told to -> all may go

No job, no folder of one, no process but the agents.

Waits: for machines, with a bound; for what they try, each with a bound. The main thread.
"""

import contextlib
import tempfile
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, final

import msgspec

from paceline.errors import Interrupted, PacelineError, StoreError
from paceline.ids import LAUNCHER
from paceline.launch.doctor.examination import Examination, Examinee
from paceline.launch.doctor.findings import Finding, findings
from paceline.launch.engines import Brought, BroughtJob
from paceline.launch.hosts import HostPlan, Listening, described, wait_host
from paceline.launch.job import JobDir, UserScript, Wires, way_of, write_secret
from paceline.launch.processes import Interrupts
from paceline.machine import machine_name, num_cores
from paceline.messages.hosts import ExamJoined, ExamReport, HostScript, JoinHost
from paceline.messages.shared import Refusal
from paceline.store.blobs import BlobStore
from paceline.timing import Clock, Deadline, wall_time_s
from paceline.transport.address import TcpAddress, parse_address
from paceline.transport.frames import ByteArray
from paceline.transport.handshake import Secret
from paceline.transport.service import Peer, Reply

LOOK_EVERY_S = 0.2
TELL_EVERY_S = 2.0
TELL_S = 3.0  # how long machines may take to hear that all is over


class ExamWish(NamedTuple):
    """What is examined: machines as for a run, a script, a place for checkpoints.

    ``within_s``: how long they may take to come.
    """

    listening: Listening
    within_s: float
    script: UserScript | None = None
    checkpoints: str = ""


class ExamResult(NamedTuple):
    """What was found."""

    examinees: list[Examinee]
    findings: list[Finding]


@final
class Examiner:
    """The service behind the listener."""

    def __init__(self, examination: Examination, joined: ExamJoined, clock: Clock) -> None:
        """Nobody has come; ``joined`` is told to each, with its own id."""
        self.examination, self._joined, self._clock = examination, joined, clock
        self.lock = threading.Lock()  # guards the examination

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: list[ByteArray], reply: Reply
    ) -> None:
        """See `Service.received`."""
        del peer, buffers
        now = self._clock.now_s()
        if isinstance(message, JoinHost):
            with self.lock:
                one = self.examination.join(message, now)
            reply(msgspec.structs.replace(self._joined, host=one.id))
        elif isinstance(message, ExamReport):
            with self.lock:
                orders = self.examination.report(message, now, wall_time_s())
            if isinstance(orders, str):
                reply(Refusal(kind="invalid", text=orders))
                return
            reply(orders)
            if orders.is_over:  # whoever closes us hangs up next
                with self.lock:
                    self.examination.told(message.host)
        else:
            text = "there is no job here: machines are examined (paceline doctor)"
            reply(Refusal(kind="invalid", text=text))

    def disconnected(self, peer: Peer) -> None:
        """See `Service.disconnected`: a machine may come back; silence alone loses it."""


def wait_examination(
    wish: ExamWish, say: Callable[[str], None], clock: Clock
) -> ExamResult:
    """Examine machines, this one among them.

    Raises:
        UsageError: the address cannot be taken, or there is no ssh.
        StoreError: the place of the checkpoints is not there, or cannot be made.
        Interrupted: whoever waits was told to stop.
    """
    listening = wish.listening
    examination = Examination(listening.begins_with(None), has_files=bool(wish.checkpoints))
    script = None if wish.script is None else described(wish.script)
    with Interrupts() as interrupts, contextlib.ExitStack() as stack:
        if wish.checkpoints:
            BlobStore(wish.checkpoints).make_root()
            stack.callback(_remove_files, wish.checkpoints, examination)
        visit = _open(stack, wish, examination, script, say, clock)
        visit.wait_complete(interrupts)
        found = findings(examination.all, examination.wanted, wish.checkpoints)
        return ExamResult(examination.all, [*map(Finding, visit.brought.ended), *found])


def _open(
    stack: contextlib.ExitStack,
    wish: ExamWish,
    examination: Examination,
    script: HostScript | None,
    say: Callable[[str], None],
    clock: Clock,
) -> "_Visit":
    """Let machines in until the stack is closed; then they are told that all is over."""
    listening = wish.listening
    folder = JobDir(Path(stack.enter_context(tempfile.TemporaryDirectory())))
    folder.logs.mkdir()
    secret = listening.secret or Secret.fresh()
    write_secret(folder.secret, secret)
    joined = ExamJoined(host="", checkpoints=wish.checkpoints, script=script)
    examiner = Examiner(examination, joined, clock)
    way = way_of(is_plain=listening.is_plain)
    wires = Wires(uuid.uuid4().hex, LAUNCHER, clock, secret=secret, way=way)
    listener = wires.listen_as_launcher(str(listening.address), examiner)
    stack.callback(listener.close)
    words, begins_with = listening.their_words(), listening.begins_with(None)
    brought = listening.engine.bring(
        BroughtJob(folder, None, secret, words, begins_with, say, clock)
    )
    visit = _Visit(wish, examiner, brought, say, clock)
    stack.callback(brought.close)
    stack.callback(visit.tell_over)
    stack.callback(brought.expect_end)
    address = listener.address.removeprefix("tcp:")
    if begins_with > 1 + listening.engine.num_machines(None):
        say(
            f"paceline: waiting for {begins_with - 1} more; a machine comes by: "
            f"{listening.invitation(address)}  (it asks for the secret, which is in "
            f"{folder.secret})"
        )
    found = parse_address(listener.address)
    assert isinstance(found, TcpAddress)
    here = listening.address._replace(first=found.port, last=found.port).from_here
    visit.come(
        HostPlan(
            launcher=here,
            own=listening.own,
            name=machine_name(),
            cores=num_cores(),
            secret=secret,
            is_plain=listening.is_plain,
        )
    )
    brought.start(address)
    return visit


@final
class _Visit:
    """An examination while it lasts."""

    def __init__(
        self,
        wish: ExamWish,
        examiner: Examiner,
        brought: Brought,
        say: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._wish, self._examiner, self.brought = wish, examiner, brought
        self._say, self._clock = say, clock
        self._said: set[str] = set()
        self._last = ""
        self._say_again = Deadline(clock, 0.0)
        self._here: threading.Thread | None = None  # this machine's own agent

    def come(self, plan: HostPlan) -> None:
        """Have this machine come, too: a thread, that ends with the examination."""

        def be_examined() -> None:
            try:
                wait_host(plan, lambda _: None, self._clock)
            except PacelineError as error:
                self._say(f"{plan.name}, this machine: {error}")

        self._here = threading.Thread(target=be_examined, name="paceline-here", daemon=True)
        self._here.start()

    def wait_complete(self, interrupts: Interrupts) -> None:
        """Until all is known.

        Raises:
            Interrupted: whoever waits was told to stop.
        """
        come_by = Deadline(self._clock, self._wish.within_s)
        examination = self._examiner.examination
        pause = threading.Event()
        while not interrupts.count:
            with self._examiner.lock:
                lost = examination.look(self._clock.now_s())
                have_come = [(one.id, one.name, one.address) for one in examination.all]
                awaited = examination.wanted - len(have_come) - len(self.brought.ended)
                if awaited <= 0 or come_by.is_over():
                    examination.begin()
                progress, is_complete = examination.progress, examination.is_complete
            for host, name, address in have_come:
                if host not in self._said:
                    self._said.add(host)
                    self._say(f"{name} has come ({address})")
            for one in lost:
                self._say(f"{one.name} is lost: {one.gone}")
            self._tell(progress)
            if is_complete:
                return
            pause.wait(LOOK_EVERY_S)
        raise Interrupted("interrupted: the machines are not examined to the end")

    def tell_over(self) -> None:
        """Let all machines go; this one, too, where it is still on its way."""
        examination = self._examiner.examination
        with self._examiner.lock:
            examination.is_over = True
        deadline, pause = Deadline(self._clock, TELL_S), threading.Event()
        while not deadline.is_over():
            with self._examiner.lock:
                are_told = all(one.is_told for one in examination.present)
            if are_told and not (self._here and self._here.is_alive()):
                return
            pause.wait(0.05)

    def _tell(self, progress: str) -> None:
        if progress and progress != self._last and self._say_again.is_over():
            self._last, self._say_again = progress, Deadline(self._clock, TELL_EVERY_S)
            self._say(progress)


def _remove_files(checkpoints: str, examination: Examination) -> None:
    store = BlobStore(checkpoints)
    for one in examination.all:
        with contextlib.suppress(StoreError):  # it was not written, or is not seen here
            store.remove(one.file)

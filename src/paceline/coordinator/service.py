"""The coordinator's hands: sockets, journal, store and clock around `CoordinatorState`.

Every message, closed connection and moment becomes an event in one queue. Whoever puts
an event in while nobody is at work does the work: it applies all waiting events, writes
their outcomes to the journal in one transaction (group commit), and only then sends
answers; where servers end with it, what steps have done may lie a moment (`Keeper`). The
journal is compacted at every cut, and whenever it has become long. A manifest is written
by a thread of its own, and its end is an event again.

While the journal's disk is full, what was decided is held, and the clock's thread is the
one at work: it tries again, and tells whoever asks (`paceline.coordinator.full_disk`).

Waits: for the journal's disk. Any thread may call.
"""

import contextlib
import functools
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import msgspec
from msgspec import structs

from paceline.config import JobConfig
from paceline.coordinator.durable import closed_of, progress_of
from paceline.coordinator.durable.outcomes import CutCommitted
from paceline.coordinator.full_disk import held_answer
from paceline.coordinator.inbox import Answers, Connections, EventInbox
from paceline.coordinator.ledgers.effects import (
    DropCut,
    Effect,
    Happened,
    SeekCut,
    SendReply,
    WriteManifest,
)
from paceline.coordinator.state import (
    Asked,
    CoordinatorState,
    Decision,
    Disconnected,
    Event,
    RunOpened,
    TimePassed,
)
from paceline.coordinator.storage import (
    Keeper,
    read_journal,
    read_stored,
    wait_committed,
    wait_dropped,
    wait_older,
    wait_swept,
)
from paceline.coordinator.stored_values import StoredValues, is_heavy, is_kept
from paceline.events import EventLog
from paceline.ids import COORDINATOR
from paceline.machine import machine_name
from paceline.messages.results import FinishTask, KeepValue, Results
from paceline.messages.server import ServerReport
from paceline.messages.shared import Message, TrainerMessage, Waiting
from paceline.messages.watching import JobStatus, LauncherOrders, ProcessStatus
from paceline.store.blobs import BlobStore
from paceline.store.cuts import Cut
from paceline.store.journal import Journal
from paceline.timing import Clock, wall_time_s
from paceline.transport import service as link

TICK_S = 0.05
PROGRESS_S = 1.0

_WITH_BYTES = (FinishTask, KeepValue)
_log = logging.getLogger("paceline.coordinator")


@final
class CoordinatorService:
    """Carries for one coordinator; implements the transport's `Service`."""

    def __init__(
        self,
        config: JobConfig,
        journal: Journal,
        store: BlobStore,
        clock: Clock,
        events: EventLog,
        gather_s: float = 0.0,
    ) -> None:
        """Open on what the journal holds, or for a new run on what storage holds.

        Nothing is handed out before `start`. For ``gather_s`` see `Keeper`.

        Raises:
            JournalCorrupt: a record of the journal does not match its check.
            CheckpointCorrupt: there are cuts to go on from, and none is whole.
            StoreFull: a new run cannot be journalled.
        """
        self._config, self._store, self._clock, self._events = config, store, clock, events
        self._state = CoordinatorState(config, read_journal(journal), clock.now_s())
        self._lock = threading.Lock()  # guards the next six fields, and _threads
        self._inbox = EventInbox()
        self._answers = Answers()
        self._connections = Connections()
        self._is_at_work = self._is_broken = False
        self._num_awaiting = 0  # threads that wait until nothing moves
        # For the one at work alone, but for a look at whether something is held.
        self._keeper = Keeper(journal, clock, events, gather_s)
        self._held: list[Decision] = []  # decided, and not journalled
        self._idle = threading.Condition(self._lock)
        self._sweeping = threading.Lock()
        self._last_progress: tuple[float, tuple[int, int]] = (0.0, (-1, -1))
        self._stopping = threading.Event()
        self._carried: dict[type[Effect], Callable[[Any], None]] = {
            SendReply: self._answer,
            WriteManifest: self._write_manifest,
            DropCut: self._drop_cut,
            SeekCut: self._seek_cut,
            Happened: lambda happened: events.write(*happened),
        }
        self._values = StoredValues(store, self._stopping.wait)
        ticks = threading.Thread(target=self._tick, name="coordinator-clock", daemon=True)
        self._threads = [ticks]
        if self._state.durable.run != config.run:
            opened = RunOpened(read_stored(store, config))
            if not self._carry_out([self._state.apply(opened, clock.now_s())]):
                assert self._keeper.holding.error is not None
                raise self._keeper.holding.error
        else:
            events.write("CoordinatorReturned", {})

    def start(self) -> None:
        """Let time pass."""
        for thread in self._threads:
            thread.start()

    def status(self) -> JobStatus:
        """How the job stands, this process included."""
        with self._idle:
            self._wait_still(1.0)
            return self._with_self(self._state.status())

    @property
    def is_broken(self) -> bool:
        """Whether a decision failed: what is journalled holds, and a restart goes on."""
        return self._is_broken

    def finish(self) -> bool:
        """The job is over: servers are told to shut down; false: not on a full disk."""
        with self._idle:
            self._wait_still(5.0)
            if self._held:
                return False
            self._is_at_work = True
        if not self._carry_out([self._state.finish(self._keeper.moment_s())]):
            return False
        self._work()
        return True

    def close(self) -> None:
        """Let no more time pass; what was handed in stays open."""
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout=5.0)
        with self._idle:
            self._wait_still(5.0)
            if not self._held:
                self._keeper.keep([], is_last=True)
        self._events.write("closed", closed_of(self._state.status()))

    # ------------------------------------------------------------ transport's Service

    def received(
        self,
        peer: link.Peer,
        message: msgspec.Struct,
        buffers: Sequence[object],
        reply: link.Reply,
    ) -> None:
        """Take a request; no link of the coordinator carries buffers."""
        assert isinstance(message, Message)
        assert not buffers
        heavy = message if isinstance(message, _WITH_BYTES) and is_heavy(message) else None
        with self._lock:
            ticket = self._answers.open(peer.role, reply)
            if isinstance(message, (TrainerMessage, ServerReport)):
                self._connections.belongs(peer.connection, message.incarnation)
            is_asked = heavy is None and self._inbox.put(Asked(peer.role, ticket, message))
            is_ours = is_asked and self._begin_work()
        if is_ours:
            self._work()
        elif heavy is not None:
            lighten = functools.partial(self._lighten, peer.role, ticket, heavy)
            self._run_beside(lighten, "coordinator-value")

    def _lighten(self, role: str, ticket: int, heavy: FinishTask | KeepValue) -> None:
        light = self._values.wait_lightened(heavy)
        if isinstance(light, Waiting):
            self._answer(SendReply(ticket, light))
        elif light is not None:
            self._put(Asked(role, ticket, light))

    def disconnected(self, peer: link.Peer) -> None:
        """A connection has gone."""
        with self._lock:
            incarnation = self._connections.closed(peer.connection)
        if incarnation:
            self._put(Disconnected(incarnation))

    # ------------------------------------------------------------ the one at work

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """See `Gathers`: what this thread brings meanwhile is one group."""
        with self._lock:
            self._inbox.gather()
        try:
            yield
        finally:
            with self._lock:
                self._inbox.gathered()
                is_ours = self._begin_work()
            if is_ours:
                self._work()

    def _put(self, event: Event) -> None:
        with self._lock:
            is_ours = self._inbox.put(event) and self._begin_work()
        if is_ours:
            self._work()

    def _begin_work(self) -> bool:
        """Under the lock: whether the caller is the one at work from now on."""
        if self._is_at_work or self._is_broken:
            return False
        self._is_at_work = True
        return True

    def _work(self) -> None:
        """Apply all waiting events, group by group; called by the one at work.

        What is held goes first. As long as it is, the clock's thread is the one at work.
        """
        try:
            if self._held and not self._carry_out(self._held):
                return
            while events := self._next_group():
                now = self._keeper.moment_s()
                decisions = [self._state.apply(event, now) for event in events]
                if not self._carry_out(decisions):
                    return
        except BaseException:
            # What was decided and not journalled must not be built upon.
            with self._idle:
                self._is_broken = True
                self._is_at_work = False
                self._idle.notify_all()
            raise

    def _next_group(self) -> list[Event]:
        """What came meanwhile; without any the work is over."""
        with self._lock:
            events = self._inbox.take()
            self._is_at_work = bool(events)
            if self._num_awaiting and not events:
                self._idle.notify_all()
            return events

    def _carry_out(self, decisions: list[Decision]) -> bool:
        """Journal what was decided and let it go out; false: it is held, for the disk."""
        self._held = []
        outcomes = [outcome for decision in decisions for outcome in decision.outcomes]
        if not self._keeper.keep(outcomes):
            self._held = decisions
            return False
        has_cut = CutCommitted in map(type, outcomes)
        if has_cut or self._keeper.is_long:
            self._keeper.compact(self._state.durable)
        if has_cut:
            self._values.note_named(self._state.durable)
            self._run_beside(self._sweep, "coordinator-sweep")
        for decision in decisions:
            for effect in decision.effects:
                self._carried[type(effect)](effect)
        return True

    def _hold(self) -> None:
        """While the journal cannot be written: try again, or tell who asks why it is so."""
        now, holding = self._clock.now_s(), self._keeper.holding
        if holding.is_due(now):
            self._work()
        trouble = holding.trouble(now)
        if trouble is None:
            return
        with self._lock:
            asked = self._answers.take_all(holding.whom_to_tell(now))
            self._inbox.drop({one.ticket for one in asked}, self._connections)
        status = self._with_self(self._state.status())
        for one in asked:
            one.reply(held_answer(one.kind, trouble, status))

    def _wait_still(self, timeout_s: float) -> None:
        """Under the lock: until nobody is at work, or only holds what cannot be kept."""
        self._num_awaiting += 1
        self._idle.wait_for(lambda: not self._is_at_work or bool(self._held), timeout_s)
        self._num_awaiting -= 1

    def _answer(self, effect: SendReply) -> None:
        with self._lock:
            answer = self._answers.take(effect.ticket)
        if answer is None:
            return
        message = effect.message
        if type(message) is JobStatus:
            message = self._with_self(message)
        elif type(message) is LauncherOrders:
            message = structs.replace(message, status=self._with_self(message.status))
        elif type(message) is Results and is_kept(message):
            whole = functools.partial(self._values.wait_whole, message)
            self._run_beside(lambda: answer(whole()), "coordinator-value")
            return
        answer(message)

    def _write_manifest(self, effect: WriteManifest) -> None:
        def commit() -> None:
            config, created = self._config, wall_time_s()
            self._put(wait_committed(self._store, effect.order, config, created))

        self._run_beside(commit, "coordinator-cut")

    def _drop_cut(self, effect: DropCut) -> None:
        drop = functools.partial(wait_dropped, self._store, effect.folder, self._config.run)
        self._run_beside(drop, "coordinator-drop")

    def _run_beside(self, what: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=what, name=name, daemon=True)
        with self._lock:
            self._threads = [t for t in self._threads if t.is_alive() or t.ident is None]
            self._threads.append(thread)
            thread.start()

    def _seek_cut(self, effect: SeekCut) -> None:
        bad, wait, config = Cut(*effect), self._stopping.wait, self._config

        def seek() -> None:
            with self._sweeping:  # what is found must not be swept away meanwhile
                sought = wait_older(self._store, config, bad, self._clock, wait)
            self._put(sought)

        self._run_beside(seek, "coordinator-seek")

    def _sweep(self) -> None:
        """Remove old cuts; only a journalled one may replace them."""
        with self._sweeping:
            wait_swept(self._store, self._state, self._config, self._values)

    # ------------------------------------------------------------ time

    def _tick(self) -> None:
        while not self._stopping.wait(TICK_S):
            if self._held:
                self._hold()
                continue
            self._put(TimePassed())
            self._write_progress()

    def _write_progress(self) -> None:
        now = self._clock.now_s()
        last_s, last = self._last_progress
        if now - last_s < PROGRESS_S:
            return
        status = self.status()
        moved = (status.records, status.steps)
        self._last_progress = (now, moved)
        if moved != last:
            self._events.write("progress", progress_of(status))

    def _with_self(self, status: JobStatus) -> JobStatus:
        """A status with what only this process knows in it: itself, and its disk."""
        me = ProcessStatus(
            role="coordinator",
            id=COORDINATOR,
            incarnation=0,
            pid=os.getpid(),
            host=machine_name(),
            address="",
            state=status.state,
            clock=0,
            records=status.records,
        )
        trouble = self._keeper.holding.trouble(self._clock.now_s())
        return structs.replace(
            status,
            processes=(me, *status.processes),
            trouble=trouble or status.trouble,
            events_lost=self._events.num_lost,
        )

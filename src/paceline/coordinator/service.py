"""The coordinator's hands: sockets, journal, store and clock around `CoordinatorState`.

Every message, closed connection and moment becomes an event in one queue. Whoever puts
an event in while nobody is at work does the work: it applies all waiting events, writes
their outcomes to the journal in one transaction (group commit), and only then sends
answers. The journal is compacted at every cut, and whenever it has become long. A
manifest is written by a thread of its own, and its end is an event again.

Waits: for the journal's disk. Any thread may call.
"""

import contextlib
import itertools
import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import final

import msgspec

from paceline.config import JobConfig
from paceline.coordinator.cuts import ManifestOrder
from paceline.coordinator.effects import (
    DropCut,
    Effect,
    Happened,
    Reply,
    SeekCut,
    WriteManifest,
)
from paceline.coordinator.happenings import closed_of, progress_of, told
from paceline.coordinator.opening import StateSaved, read_journal, read_stored, wait_older
from paceline.coordinator.outcomes import CutCommitted, Outcome
from paceline.coordinator.service_cuts import wait_committed, wait_dropped, wait_swept
from paceline.coordinator.service_inbox import Inbox
from paceline.coordinator.service_values import Values, is_kept
from paceline.coordinator.state import (
    Asked,
    CoordinatorState,
    Decision,
    Disconnected,
    Event,
    RunOpened,
    TimePassed,
)
from paceline.errors import StoreError
from paceline.events import EventLog
from paceline.failpoints import failpoint
from paceline.ids import COORDINATOR
from paceline.messages import (
    JobStatus,
    Message,
    ProcessStatus,
    Results,
    ServerReport,
    TrainerMessage,
)
from paceline.store.blobs import BlobStore
from paceline.store.journal import Journal
from paceline.store.manifest import Cut
from paceline.timing import Clock, wall_time_s
from paceline.transport import service as link

TICK_S = 0.05
PROGRESS_S = 1.0
RETRY_JOURNAL_S = 0.5
MOST_RECORDS = 50_000  # in the journal; they are replayed in a fraction of a second
MAX_UNANSWERED = 100_000  # questions whose asker has put another one in their place

_log = logging.getLogger("paceline.coordinator")
_encoder = msgspec.msgpack.Encoder()


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
    ) -> None:
        """Open on what the journal holds, or for a new run on what storage holds.

        Nothing is handed out before `start`.

        Raises:
            JournalCorrupt: a record of the journal does not match its check.
            CheckpointCorrupt: there are cuts to go on from, and none is whole.
        """
        self._config, self._journal, self._store = config, journal, store
        self._clock, self._events = clock, events
        self._state = CoordinatorState(config, read_journal(journal), clock.now_s())
        self._tickets = itertools.count(1)
        self._lock = threading.Lock()  # guards the five fields below, and _threads
        self._inbox = Inbox()
        self._answers: dict[int, link.Reply] = {}  # {ticket: the way back}
        self._incarnations: dict[int, int] = {}  # {connection: whose it is}
        self._num_connections: Counter[int] = Counter()  # by incarnation
        self._is_at_work = False
        self._idle = threading.Condition(self._lock)
        self._sweeping = threading.Lock()
        self._compact_above = MOST_RECORDS
        self._is_broken = False
        self._last_progress: tuple[float, tuple[int, int]] = (0.0, (-1, -1))
        self._stopping = threading.Event()
        self._values = Values(store, self._stopping.wait)
        self._threads = [
            threading.Thread(target=self._tick, name="coordinator-clock", daemon=True)
        ]
        if self._state.durable.run != config.run:
            opened = RunOpened(read_stored(store, config))
            self._carry_out([self._state.apply(opened, clock.now_s())])

    def start(self) -> None:
        """Let time pass."""
        for thread in self._threads:
            thread.start()

    def status(self) -> JobStatus:
        """How the job stands, this process included."""
        with self._idle:
            self._idle.wait_for(lambda: not self._is_at_work, timeout=1.0)
            return self._with_self(self._state.status())

    @property
    def is_broken(self) -> bool:
        """Whether a decision failed: what is journalled holds, and a restart goes on."""
        return self._is_broken

    def finish(self) -> None:
        """The job is over: servers are told to shut down."""
        with self._idle:
            self._idle.wait_for(lambda: not self._is_at_work, timeout=5.0)
            self._is_at_work = True
        self._carry_out([self._state.finish(self._clock.now_s())])
        self._work()

    def close(self) -> None:
        """Let no more time pass; what was handed in stays open."""
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout=5.0)
        with self._idle:
            self._idle.wait_for(lambda: not self._is_at_work, timeout=5.0)
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
        ticket = next(self._tickets)
        with self._lock:
            self._answers[ticket] = reply
            if isinstance(message, (TrainerMessage, ServerReport)):
                self._belongs(peer.connection, message.incarnation)
        if not self._values.is_heavy(message):
            self._put(Asked(peer.role, ticket, message))
            return

        def put() -> None:
            light = self._values.wait_lightened(message)
            if light is not None:
                self._put(Asked(peer.role, ticket, light))

        self._run_beside(put, "coordinator-value")

    def disconnected(self, peer: link.Peer) -> None:
        """A connection has gone."""
        with self._lock:
            incarnation = self._incarnations.get(peer.connection, 0)
            self._belongs(peer.connection, 0)
            is_last = incarnation not in self._num_connections
        if incarnation and is_last:
            self._put(Disconnected(incarnation))

    def _belongs(self, connection: int, incarnation: int) -> None:
        """Note whose a connection is; 0: nobody's. Under the lock."""
        before = self._incarnations.get(connection, 0)
        if before == incarnation:
            return
        if before:
            del self._incarnations[connection]
            self._num_connections[before] -= 1
            if not self._num_connections[before]:
                del self._num_connections[before]
        if incarnation:
            self._incarnations[connection] = incarnation
            self._num_connections[incarnation] += 1

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
        if self._is_at_work or self._is_broken or not len(self._inbox):
            return False
        self._is_at_work = True
        return True

    def _work(self) -> None:
        """Apply all waiting events, group by group; called by the one at work."""
        try:
            while events := self._next_group():
                now = self._clock.now_s()
                self._carry_out([self._state.apply(event, now) for event in events])
        except BaseException:
            # What was decided and not journalled must not be built upon.
            with self._idle:
                self._is_broken = True
                self._is_at_work = False
                self._idle.notify_all()
            raise

    def _next_group(self) -> list[Event]:
        """What came meanwhile; without any the work is over."""
        with self._idle:
            events = self._inbox.take()
            if not events:
                self._is_at_work = False
                self._idle.notify_all()
            return events

    def _carry_out(self, decisions: list[Decision]) -> None:
        outcomes = [outcome for decision in decisions for outcome in decision.outcomes]
        if outcomes:
            failpoint("coordinator.before_journal")
            self._keep(outcomes)
            failpoint("coordinator.before_reply")
            self._events.write_all(map(told, outcomes))
        has_cut = any(isinstance(outcome, CutCommitted) for outcome in outcomes)
        if has_cut or self._journal.num_records > self._compact_above:
            self._compact()
        if has_cut:
            self._values.note_named(self._state.durable)
            self._run_beside(self._sweep, "coordinator-sweep")
        for decision in decisions:
            for effect in decision.effects:
                self._carry_out_effect(effect)

    def _carry_out_effect(self, effect: Effect) -> None:
        if isinstance(effect, Reply):
            self._answer(effect)
        elif isinstance(effect, WriteManifest):
            self._write_manifest(effect.order)
        elif isinstance(effect, DropCut):
            store, run = self._store, self._config.run
            self._run_beside(
                lambda: wait_dropped(store, effect.folder, run), "coordinator-drop"
            )
        elif isinstance(effect, SeekCut):
            self._seek_cut(effect)
        else:
            assert isinstance(effect, Happened)
            self._events.write(effect.event, effect.fields)

    def _keep(self, outcomes: Sequence[Outcome]) -> None:
        """Journal outcomes; while the disk refuses, nothing is answered."""
        bodies = [_encoder.encode(outcome) for outcome in outcomes]
        while True:
            try:
                self._journal.append(bodies)
            except StoreError as error:
                _log.exception("the journal cannot be written; the job pauses: %s", error)
                if self._stopping.wait(RETRY_JOURNAL_S):
                    raise
            else:
                return

    def _compact(self) -> None:
        self._compact_above = MOST_RECORDS
        try:
            record = StateSaved(self._state.durable)
            self._journal.compact(msgspec.msgpack.encode(record))
        except StoreError:
            _log.exception("the journal could not be compacted; it goes on longer")
            self._compact_above += self._journal.num_records

    def _answer(self, effect: Reply) -> None:
        with self._lock:
            answer = self._answers.pop(effect.ticket, None)
            if len(self._answers) > MAX_UNANSWERED:
                self._answers.pop(next(iter(self._answers)))
        if answer is None:
            return
        message = effect.message
        if isinstance(message, JobStatus):
            message = self._with_self(message)
        if isinstance(message, Results) and is_kept(message):
            results = message
            self._run_beside(
                lambda: answer(self._values.wait_whole(results)), "coordinator-value"
            )
            return
        answer(message)

    def _write_manifest(self, order: ManifestOrder) -> None:
        def commit() -> None:
            config, created = self._config, wall_time_s()
            self._put(wait_committed(self._store, order, config, created))

        self._run_beside(commit, "coordinator-cut")

    def _run_beside(self, what: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=what, name=name, daemon=True)
        with self._lock:
            self._threads = [t for t in self._threads if t.is_alive() or t.ident is None]
            self._threads.append(thread)
            thread.start()

    def _seek_cut(self, effect: SeekCut) -> None:
        bad = Cut(effect.cut, effect.timeline, effect.folder)
        wait, config = self._stopping.wait, self._config

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
        me = ProcessStatus(
            role="coordinator",
            id=COORDINATOR,
            incarnation=0,
            pid=os.getpid(),
            host=socket.gethostname(),
            address="",
            state=status.state,
            waiting_for="",
            clock=0,
            records=status.records,
        )
        return msgspec.structs.replace(status, processes=(me, *status.processes))

"""A server's other side: it reports to the coordinator and carries out its orders.

::

    report (how things stand, answers) -> orders -> carried out -> report -> ...

A report is answered at once when there are orders, otherwise after a while: so a report
is also the sign of life. Orders are computed anew from every report, so nothing here is
repeated or remembered but answers, and those only until a report with them is answered
with orders: not by `Waiting`, while the coordinator cannot journal.

What takes long, writing a share of a cut and loading one, is done in a thread of its own
while reports go on. A coordinator that has gone is looked for until `Control.close`.

Waits: for the coordinator and for storage, in its own threads; `close`, with a deadline.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from typing import final

from paceline.errors import (
    CheckpointCorrupt,
    DeadlineExceeded,
    StoreError,
    TransportError,
    UsageError,
)
from paceline.failpoints import failpoint
from paceline.machine import machine_name
from paceline.messages.server import (
    CommitRound,
    ConfirmTracked,
    CreatePart,
    CutReport,
    EndPart,
    Fence,
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
from paceline.messages.shared import Waiting
from paceline.params.shard import bare
from paceline.server.slots import Slots
from paceline.server.snapshots import CutShare, Pinned, read_share, write_share
from paceline.server.standing import ServerCore
from paceline.store.blobs import BlobStore
from paceline.transport.connection import Connection
from paceline.transport.patience import PatientConnection

SLICE_S = 0.05  # how long a report may be parked while there will be news of our own
PAUSE_S = 0.02  # between reports whose orders cannot be carried out yet
FIRST_BACK_OFF_S = 0.02
LONGEST_BACK_OFF_S = 0.5
MOST_READS = 20  # of a cut in storage that fails, each with the storage's own patience

_AT_ONCE = frozenset({CommitRound, Forget, ConfirmTracked})  # orders that need no time

logger = logging.getLogger("paceline.server")


@final
class Control:
    """Reports and orders of one server."""

    def __init__(
        self,
        standing: ServerCore,
        address: str,
        timeout_s: float,
        coordinator: Callable[[int], Connection],
        store: BlobStore,
        on_change: Callable[[], None],
    ) -> None:
        """Do nothing before `start`.

        A reply of the coordinator may take ``timeout_s``; ``on_change``: parked requests
        may be answerable.
        """
        self._standing, self._server = standing, standing.server
        self._address, self._timeout_s = address, timeout_s
        # Hanging up would mean death.
        self._coordinator = PatientConnection(
            lambda: coordinator(self._incarnation), keeps_late=True
        )
        self._store, self._on_change = store, on_change
        self._incarnation, self._host, self._pid = 0, machine_name(), os.getpid()
        self._said: ServerReport  # last
        self._unable: Exception | None = None  # why orders were not obeyed
        self._cut: int | None = None  # the cut whose share is or was written last
        self._writing: int | None = None  # the cut whose share is being written; by _lock
        self._stopping = threading.Event()
        self._news = threading.Event()  # a thread of ours has something to report
        # Guards the three fields below.
        self._lock = threading.Lock()
        self._answers: dict[str, ServerAnswer] = {}  # {what: not yet acknowledged}
        self._unreadable: str | None = None  # why the cut to return to cannot be loaded
        self._threads = [self._thread(self._stay_connected, "control")]

    def start(self) -> None:
        """Join the job."""
        self._threads[0].start()

    def close(self, timeout_s: float) -> None:
        """Hang up and end the threads."""
        self._stopping.set()
        self._news.set()
        self._coordinator.close()
        control = self._threads[0]
        if control.ident is not None:
            control.join(timeout_s)
        with self._lock:  # no more are begun, now that the first has ended
            begun = self._threads[1:]
        for thread in begun:
            thread.join(timeout_s)

    # ------------------------------------------------------------ reports

    def _stay_connected(self) -> None:
        """Report and obey until the server is to end."""
        with contextlib.closing(self._coordinator):
            is_told = False  # why nothing can be journalled
            while not self._is_ending():
                self._news.clear()
                self._said = self._report()
                timeout_s = SLICE_S if self._is_busy() else self._timeout_s
                try:
                    reply = self._coordinator.call(
                        self._said, timeout_s, self._obey_at_once
                    )
                except DeadlineExceeded:
                    continue  # the coordinator forgets the older report
                except TransportError as error:
                    logger.info("%s looks for the coordinator: %s", self._server, error)
                    self._coordinator.pause()
                    continue
                if isinstance(reply, Waiting):
                    if not is_told:
                        logger.warning("%s: %s", self._server, reply.wait.reason)
                    is_told = True
                    continue
                is_told = False
                if not isinstance(reply, Orders):
                    logger.warning("%s was refused: %s", self._server, reply)
                    self._stopping.wait(LONGEST_BACK_OFF_S)
                elif (done := self._obey(reply)) and not any(done):
                    self._news.wait(PAUSE_S)

    def _obey(self, orders: Orders) -> list[bool]:
        """Carry all out; of each, whether anything came of it."""
        if self._unable is not None:
            raise self._unable
        if self._said.answers:
            self._acknowledged(self._said)
        self._incarnation = orders.incarnation
        return [self._carry_out(order) for order in orders.orders]

    def _obey_at_once(self, reply: object) -> ServerReport | None:
        """In the thread of who gives orders: obey what needs no time; the next report."""
        if not (isinstance(reply, Orders) and reply.orders):
            return None
        if not _AT_ONCE.issuperset(map(type, reply.orders)):
            return None
        try:
            self._obey(reply)
        except Exception as error:  # noqa: BLE001  (raised in the thread of its own)
            self._unable = error
            return None
        self._said = self._report()
        return self._said

    def _report(self) -> ServerReport:
        with self._lock:
            answers, unreadable = tuple(self._answers.values()), self._unreadable
        standing, state = self._standing, self._standing.state
        with standing.lock:  # after the answers, which are of what has happened
            return ServerReport(
                server=self._server,
                incarnation=self._incarnation,
                timeline=state.timeline,
                address=self._address,
                pid=self._pid,
                host=self._host,
                ready=state.is_ready,
                parts=state.parts(),
                answers=answers,
                forgotten_cut=state.forgotten_cut,
                counters=standing.counters(),
                load=standing.load(),
                tracked=standing.tracked.confirmed.number,
                pinned_cut=standing.pinned_cut,
                unreadable=None if state.is_ready else unreadable,
                broken=standing.failure if standing.is_broken else None,
            )

    def _acknowledged(self, report: ServerReport) -> None:
        with self._lock:
            for what, answer in list(self._answers.items()):
                if any(answer is sent for sent in report.answers):
                    del self._answers[what]

    def _is_ending(self) -> bool:
        return self._stopping.is_set() or self._standing.over.is_set()

    # ------------------------------------------------------------ orders

    def _carry_out(self, order: Order) -> bool:
        """Obey; false if nothing came of it yet and the order will be given again."""
        match order:
            case CreatePart() | EndPart():
                self._standing.order_part(order)
            case CommitRound():
                self._standing.commit_round(order)
                self._on_change()
            case Fence():
                report = self._standing.fence(order)
                self._on_change()  # what it had locked is free
                if report is None:
                    return False
                self._keep_answer(f"fence {order.incarnation}", report)
            case SendMarks():
                self._keep_answer("marks", self._standing.marks())
            case Forget() | ConfirmTracked():
                self._standing.note(order)
            case Snapshot():
                return self._begin_snapshot(order)
            case Restore() | TakePaces():
                return self._enter(order)
            case ShutDown():
                logger.info("%s ends: %s", self._server, order.reason)
                self._standing.over.set()
        return True

    def _keep_answer(self, what: str, answer: ServerAnswer) -> None:
        with self._lock:
            self._answers[what] = answer

    def _begin_snapshot(self, order: Snapshot) -> bool:
        if self._cut == order.cut:
            return False
        with self._lock:
            if self._writing is not None:
                self._cut = order.cut
                error = f"{self._server} is still writing its share of cut {self._writing}"
                self._answers[f"cut {order.cut}"] = CutReport(order.cut, (), error)
                return True
        pinned = self._standing.pin(order)
        if pinned is None:
            return False
        self._cut = self._writing = order.cut
        pinned.run()  # here, so that the next report says so and rounds go on
        self._begin(lambda: self._write(order, pinned), f"cut-{order.cut}")
        return True

    def _write(self, order: Snapshot, pinned: Pinned) -> None:
        """Write this server's share of a cut; in a thread of its own."""
        try:
            report = self._written(order, pinned)
        finally:
            self._standing.unpin(pinned)
            with self._lock:
                self._writing = None
        with self._lock:
            if self._standing.state.timeline == pinned.timeline:
                self._answers[f"cut {order.cut}"] = report
        self._news.set()

    def _written(self, order: Snapshot, pinned: Pinned) -> CutReport:
        is_copied = False
        try:
            share = self._copied_share(pinned)
            is_copied = True
            failpoint("server.snapshot")
            entry = write_share(self._store, order.folder, self._server, share)
        except StoreError as failed:
            logger.error("%s could not write its share: %s", self._server, failed)
            return CutReport(order.cut, (), str(failed), is_refused=is_copied)
        failpoint("server.after_snapshot")
        error = self._standing.failure  # marks are in it, and their numbers may not be
        return CutReport(order.cut, () if error else (entry,), error)

    def _copied_share(self, pinned: Pinned) -> CutShare:
        """Copy a few pages at a time until the share of the pinned moment is whole.

        Between two times at a slot its pushes go on; what they change is copied first.

        Raises:
            StoreError: a slot did not come to it in time, as when the server is ending.
        """
        timeout_s = self._timeout_s
        too_slow = f"{self._server}: the slots were not copied in {timeout_s:g} s"
        if not pinned.done.wait(timeout_s):
            raise StoreError(too_slow)
        for slot in pinned.snapshots:
            is_copied: bool | None = False
            while not is_copied:
                is_copied = self._standing.copy_some(pinned, slot)(timeout_s)
                if is_copied is None:
                    raise StoreError(too_slow)
        slots = {slot: snapshot.tensors() for slot, snapshot in pinned.snapshots.items()}
        return CutShare(slots, pinned.marks, pinned.versions, pinned.tracked, pinned.voids)

    def _enter(self, order: Restore | TakePaces) -> bool:
        """Begin to enter a timeline."""
        if isinstance(order, Restore):
            if (slots := self._standing.begin_restore(order)) is None:
                return False
            with self._lock:
                self._answers.clear()
                self._unreadable = None
            self._cut = None
            self._on_change()
            self._begin(lambda: self._restore(order, slots), f"timeline-{order.timeline}")
            return True
        if (moving := self._standing.begin_paces(order)) is None:
            return False
        with self._lock:
            self._answers.clear()
        self._on_change()

        def move() -> None:
            failpoint("server.before_paces")
            moving.run()
            while not moving.done.wait(SLICE_S):  # a read may stand before it
                if self._is_ending() or not self._standing.is_returning(order):
                    return
            self._standing.end_paces(order, moving.slots)
            self._on_change()
            self._news.set()

        self._begin(move, f"timeline-{order.timeline}")
        return True

    def _restore(self, order: Restore, slots: Slots) -> None:
        """Load the cut, or say why that cannot be; own thread.

        A file that is missing or damaged stays so; storage that fails is tried again, for
        `MOST_READS` times or until the timeline is left.
        """
        back_off_s, reads = FIRST_BACK_OFF_S, 0
        while not self._is_ending() and self._standing.is_returning(order):
            reads += 1
            try:
                wanted = slots.shard.slots()
                share = read_share(self._store, order, self._server, wanted)
                layouts = [slots.layouts[part] for part in order.without_state]
                strange = {slot for layout in layouts for slot in layout.blocks}
                for slot in wanted:
                    held = share.slots[slot]
                    slots.shard.load(slot, bare(held) if slot in strange else held)
            except (StoreError, UsageError) as error:
                where = f"{self._server} cannot return to cut {order.cut}"
                is_final = isinstance(error, CheckpointCorrupt | UsageError)
                if is_final or reads >= MOST_READS:
                    logger.exception("%s; the coordinator is told", where)
                    with self._lock:  # to be said until the next order to return
                        if self._standing.is_returning(order):
                            self._unreadable = str(error)
                    self._news.set()
                    return
                logger.exception("%s; it tries again", where)
                self._stopping.wait(back_off_s)
                back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)
                continue
            self._standing.end_restore(order, slots, share)
            self._on_change()
            self._news.set()

    # ------------------------------------------------------------ threads

    def _begin(self, action: Callable[[], None], name: str) -> None:
        thread = self._thread(action, name)
        with self._lock:
            control, *begun = self._threads
            self._threads = [control, *(t for t in begun if t.is_alive()), thread]
        thread.start()

    def _is_busy(self) -> bool:
        """Whether a thread of ours will have news."""
        with self._lock:
            return any(thread.is_alive() for thread in self._threads[1:])

    def _thread(self, action: Callable[[], None], name: str) -> threading.Thread:
        def run() -> None:
            try:
                action()
            except Exception as error:  # noqa: BLE001  (a thread has nobody to raise to)
                self._standing.fail(error)

        return threading.Thread(target=run, name=f"{self._server}-{name}", daemon=True)

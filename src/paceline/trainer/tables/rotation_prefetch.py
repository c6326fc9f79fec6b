"""The next cell of a rotation, looked for while the user computes on this one.

Everything here is a question that may be lost: what does not come is asked for again by the
user's thread, in its own way. So nothing is decided here.

Waits: for the coordinator, which may let a question wait for a second, and for the server
that has the block. One thread, from `begin` to `wait_found`, uses connections that others
use meanwhile; the user's thread calls.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import NamedTuple, final

import msgspec
import numpy as np

from paceline.ids import COORDINATOR, TaskKey
from paceline.messages.data import PulledRows
from paceline.messages.rotation import RotationSpec
from paceline.messages.shared import Lease, Message, Waiting
from paceline.messages.trainer import AskLease, Granted
from paceline.messages.waits import Wait
from paceline.params.rows import Array, Int64s
from paceline.trainer.acts import Lost
from paceline.trainer.client import Driver, Payload
from paceline.trainer.protocol import StandingThen
from paceline.trainer.rows import TableRows
from paceline.trainer.tables.rotation_peers import PeerBlocks

_COMES = Wait("block", "the next block's lease, or its rows, are on their way")


class Ahead(NamedTuple):
    """A cell that was leased ahead; its rows (ids, dim), unless they did not come."""

    lease: Lease
    standing: StandingThen
    rows: Array | None


@final
class LookAhead:
    """Looks for one cell at a time."""

    def __init__(
        self,
        driver: Driver,
        own: TableRows,
        ids_of: Callable[[int], Int64s],
        peers: PeerBlocks,
    ) -> None:
        """Nothing is looked for; ``ids_of``: block -> its rows."""
        self._peers = peers
        self._driver, self._own, self._ids_of = driver, own, ids_of
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="paceline-ahead")
        self._enough = Event()  # one more answer is waited for, but nothing else asked
        self._looking: Future[Ahead | None] | None = None
        self._found: Ahead | None = None

    def begin(self, ask: AskLease, standing: StandingThen, rotation: RotationSpec) -> None:
        """Look for the next cell; what was found before is let go."""
        assert self._looking is None, "one at a time"
        self._enough.clear()
        self._found = None
        self._looking = self._threads.submit(self._look, ask, standing, rotation)

    def is_done(self) -> bool:
        """Whether `wait_found` would not wait."""
        return self._looking is None or self._looking.done()

    def wait_found(self) -> Ahead | None:
        """What was found; None if nothing was, or nothing was looked for since.

        A question that the coordinator lets wait is waited for; none is asked any more.
        """
        if self._looking is None:
            return None
        self._enough.set()
        looking, self._looking = self._looking, None
        with self._driver.stopwatch.waiting(), self._driver.waits.showing(_COMES):
            self._found = looking.result()
        return self._found

    def rows_of(self, key: TaskKey, standing: StandingThen) -> Array | None:
        """The rows of a cell (ids, dim), if they have come and the trainer is who asked."""
        found = self._found
        if found is None or found.lease.key != key or found.standing != standing:
            return None
        self._found = None
        return found.rows

    def close(self) -> None:
        """End the thread; nothing is being looked for."""
        self._threads.shutdown()

    # ------------------------------------------------------------ in the other thread

    def _look(
        self, ask: AskLease, standing: StandingThen, rotation: RotationSpec
    ) -> Ahead | None:
        while True:
            reply = self._ask(COORDINATOR, Payload(ask))
            if isinstance(reply, Granted):
                break
            if not isinstance(reply, Waiting) or self._enough.is_set() or _asks(reply):
                return None
        _, block = rotation.cell_of(reply.lease.key.task)
        ids = self._ids_of(block)
        rows = np.empty((len(ids), self._own.spec.dim), self._own.combine.dtype)
        if self._peers.wait_rows(reply.lease, block, rows):
            return Ahead(reply.lease, standing, rows)
        return Ahead(reply.lease, standing, self._read(ids, standing))

    def _read(self, ids: Int64s, standing: StandingThen) -> Array | None:
        asked = self._own.question(ids)
        for server, payload in asked.requests.items():
            who = {"incarnation": standing.incarnation, "timeline": standing.timeline}
            message = msgspec.structs.replace(payload.message, **who)
            reply = self._ask(server, payload._replace(message=message))
            if not isinstance(reply, PulledRows):
                return None
        return asked.values[asked.inverse]

    def _ask(self, role: str, payload: Payload) -> Message | Lost:
        sent = self._driver.send(role, payload)
        if sent is None:
            return Lost(f"{role} is away")
        return self._driver.settle(role, sent)


def _asks(waiting: Waiting) -> bool:
    """Whether something is wanted of the trainer first: its own thread is told again."""
    return bool(waiting.track or waiting.buffers or waiting.average or waiting.pauses)

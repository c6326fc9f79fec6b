"""A parameter server: takes the requests of trainers, each to what answers it.

The coordinator's orders are carried out by `paceline.server.control`.

Waits: `ServerService.wait_over` only. Any thread may call.
"""

import functools
from collections.abc import Callable
from typing import Any, final

import msgspec

from paceline.config import JobConfig
from paceline.errors import JobFailed
from paceline.messages.data import (
    AskTracked,
    KeepFrozen,
    KeepTracked,
    Pull,
    PullRows,
    Push,
    PushEarly,
    Upload,
)
from paceline.messages.locking import ApplyStep, KeepLocks, Lock, Unlock
from paceline.messages.shared import Refusal
from paceline.messages.values import SetValues
from paceline.server.answers import (
    Locking,
    Pushes,
    Reads,
    answer_early,
    answer_kept,
    answer_values,
    give,
)
from paceline.server.control import Control
from paceline.server.requests.contents import Bytes
from paceline.server.slots import ROW_QUEUES
from paceline.server.standing import ServerCore
from paceline.store.blobs import BlobStore
from paceline.timing import Clock, Repeating
from paceline.torch_compiler import leave_out
from paceline.transport.address import InProcessAddress, parse_address
from paceline.transport.connection import Connection
from paceline.transport.service import Peer, Reply

TICK_S = 0.05
JOIN_S = 5.0

Answer = Callable[[Peer, Any, list[Bytes], Reply], None]


@final
class ServerService:
    """One parameter server; implements the transport's `Service` for trainers."""

    def __init__(
        self,
        server: str,
        config: JobConfig,
        address: str,
        coordinator: Callable[[int], Connection],
        store: BlobStore,
        clock: Clock,
    ) -> None:
        """Stand empty; nothing happens before `start`.

        Args:
            server: its role id.
            config: of the job.
            address: where trainers reach it, for the coordinator to tell them.
            coordinator: makes a connection to the coordinator, for an incarnation.
            store: where cuts lie.
            clock: for how long requests are parked.
        """
        self._clock = clock
        # In one process the asker does nearly all himself: more queues are more calls.
        is_embedded = isinstance(parse_address(address), InProcessAddress)
        row_queues = 1 if is_embedded else ROW_QUEUES
        self._standing = ServerCore(server, config.seed, clock, row_queues)
        self._reads = Reads(self._standing, clock)
        self._locking = Locking(self._standing, clock, self._reads.waiters.ask)
        self._answers = self._all_answers(store)
        self._control = Control(
            self._standing,
            address,
            config.timeout_s,
            coordinator,
            store,
            self._look_again,
        )
        self._timer = Repeating(f"{server}-clock", TICK_S, self._pass_time)

    def start(self) -> None:
        """Join the job; call after the listener is open."""
        leave_out()
        self._timer.start()
        self._standing.runners.start()
        self._control.start()

    def wait_over(self, timeout_s: float) -> bool:
        """Whether the server was told to end: the job is over, or it was superseded.

        Raises:
            JobFailed: the server cannot go on; the message says why.
        """
        is_over = self._standing.over.wait(timeout_s)
        standing = self._standing
        if standing.failure is not None and not standing.is_broken:
            raise JobFailed(standing.failure)  # one in its place could go on
        return is_over

    def close(self) -> None:
        """End the threads; parked requests are answered with `Waiting`."""
        self._control.close(JOIN_S)
        self._timer.stop(JOIN_S)
        self._standing.runners.close(JOIN_S)
        with self._standing.lock:
            self._standing.slots.retire()
        self._reads.waiters.close()
        self._locking.waiters.close()

    # ------------------------------------------------------------ transport's Service

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: list[Bytes], reply: Reply
    ) -> None:
        """Take a request of a trainer."""
        if self._standing.failure is not None:
            give(reply, Refusal(kind="invalid", text=self._standing.failure))
            return
        self._answers[type(message)](peer, message, buffers, reply)

    def disconnected(self, peer: Peer) -> None:
        """Nobody waits for the parked requests of this connection any more."""
        self._reads.waiters.disconnected(peer)
        with self._standing.lock:
            self._standing.early.drop(peer.incarnation)
        self._locking.waiters.disconnected(peer)

    def _all_answers(self, store: BlobStore) -> dict[type[msgspec.Struct], Answer]:
        """What answers each request."""
        locks, reads = self._locking.received, self._reads.waiters.ask
        early = _to_anybody(functools.partial(answer_early, self._standing))
        values = _to_anybody(functools.partial(answer_values, self._standing))
        kept = _to_anybody(functools.partial(answer_kept, self._standing, store))
        return {
            Push: Pushes(self._standing, reads, self._locking.go_on).received,
            **dict.fromkeys((Pull, PullRows), reads),
            **dict.fromkeys((Lock, Unlock, KeepLocks, ApplyStep), locks),
            PushEarly: early,
            **dict.fromkeys((Upload, SetValues), values),
            **dict.fromkeys((KeepTracked, AskTracked, KeepFrozen), kept),
        }

    # ------------------------------------------------------------ who waits

    def _look_again(self) -> None:
        """Something has changed: answer what can be answered now."""
        self._reads.waiters.look_again()
        self._locking.look_again()

    def _pass_time(self) -> None:
        now_s = self._clock.now_s()
        self._locking.pass_time(now_s)
        self._reads.pass_time(now_s)


def _to_anybody(answer: Callable[[Any, list[Bytes], Reply], None]) -> Answer:
    """The same answer, whoever asks."""
    return lambda _, message, buffers, reply: answer(message, buffers, reply)

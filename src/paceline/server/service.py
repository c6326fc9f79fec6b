"""A parameter server: takes the requests of trainers, parks those that must wait.

::

    request -> checked -> decided -> numbers, slot by slot -> acknowledged
                          `------ under one lock, lined up ------'

The thread that brings a request runs what it lets happen, and whatever waits at the same
slots. Requests that wait for a round are parked, at most `PARK_S`, then answered with the
reason. The coordinator's orders are carried out by `paceline.server.control`.

Waits: `ServerService.wait_over` only. Any thread may call.
"""

import functools
import threading
from collections.abc import Callable
from typing import final

import msgspec

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.failpoints import failpoint
from paceline.messages import (
    ApplyStep,
    AskTracked,
    KeepFrozen,
    KeepLocks,
    KeepTracked,
    Lock,
    Message,
    PartReport,
    Pull,
    Pulled,
    PulledRows,
    PullRows,
    Push,
    PushEarly,
    Pushed,
    Refusal,
    SetValues,
    Unlock,
    Upload,
    ValuesPlace,
    Waiting,
    wait_for,
)
from paceline.params.dense import warm_up
from paceline.server.answers import (
    PARK_S,
    Locking,
    ParkedReads,
    Read,
    answer_kept,
    carry_out,
    decide_values,
    give,
    invalid,
    stage_early,
    with_rows,
)
from paceline.server.control import Control, Myself
from paceline.server.requests import (
    Gradients,
    PartLayout,
    Plain,
    coded_block_bytes,
    coded_row_sizes,
    decode_push,
)
from paceline.server.requests.contents import (
    Bytes,
    PreparedPush,
    PushContents,
    read_known,
    read_pull_rows,
    read_push,
)
from paceline.server.slots import Action, BlockReads, at_rate
from paceline.server.standing import Standing
from paceline.store.blobs import BlobStore
from paceline.timing import Clock
from paceline.transport.connection import Connection
from paceline.transport.service import Peer, Reply, is_awaited, own, places_of

TICK_S = 0.05
JOIN_S = 5.0


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
            config: of the job; its seed decides new rows.
            address: where trainers reach it, for the coordinator to tell them.
            coordinator: makes a connection to the coordinator, for an incarnation.
            store: where cuts lie.
            clock: for how long requests are parked.
        """
        self._clock, self._store = clock, store
        self._standing = Standing(server, config.seed, clock)
        self._parked = ParkedReads(server)  # by the lock of `_standing`
        self._locking = Locking(self._standing, clock, self._ask)
        self._stopping = threading.Event()
        self._control = Control(
            self._standing,
            Myself(server, address, config.timeout_s),
            coordinator,
            store,
            self._look_at_parked,
        )
        self._timer = threading.Thread(
            target=self._pass_time, name=f"{server}-clock", daemon=True
        )

    def start(self) -> None:
        """Join the job; call after the listener is open."""
        warm_up()
        self._timer.start()
        self._standing.runners.start()
        self._control.start()

    def wait_over(self, timeout_s: float) -> bool:
        """Whether the server was told to end: the job is over, or it was superseded.

        Raises:
            JobFailed: the server cannot go on; the message says why.
        """
        is_over = self._standing.over.wait(timeout_s)
        self._standing.raise_failure()
        return is_over

    def close(self) -> None:
        """End the threads; parked requests are answered with `Waiting`."""
        self._stopping.set()
        self._control.close(JOIN_S)
        if self._timer.ident is not None:
            self._timer.join(JOIN_S)
        self._standing.runners.close(JOIN_S)
        with self._standing.lock:
            parked = self._parked.take_all()
            self._standing.slots.retire()
        for request in parked:
            give(request.reply, self._waiting(f"{self._standing.server} closes"))
        self._locking.close()

    # ------------------------------------------------------------ transport's Service

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: list[Bytes], reply: Reply
    ) -> None:
        """Take a request of a trainer."""
        if self._standing.failure is not None:
            give(reply, Refusal(kind="invalid", text=self._standing.failure))
        elif isinstance(message, Push):
            ask = functools.partial(self._ask, peer)
            try:
                self._push(message, *with_rows(message, buffers, reply, ask))
            except UsageError as error:
                give(reply, invalid(message, error))
        elif isinstance(message, Pull | PullRows):
            self._ask(peer, message, buffers, reply)
        elif isinstance(message, Lock | Unlock | KeepLocks | ApplyStep):
            self._locking.received(peer, message, buffers, reply)
        elif isinstance(message, PushEarly):
            give(reply, stage_early(self._standing, message, buffers))
        elif isinstance(message, KeepTracked | AskTracked | KeepFrozen):
            answer_kept(self._standing, self._store, message, buffers, reply)
        else:
            assert isinstance(message, Upload | SetValues), f"{message}: no such request"
            with self._standing.lock:
                answer = decide_values(self._standing, message, buffers, reply)
            carry_out(answer, reply)

    def disconnected(self, peer: Peer) -> None:
        """Nobody waits for the parked requests of this connection any more."""
        with self._standing.lock:
            self._parked.drop(peer)
            self._standing.early.drop(peer.incarnation)
        self._locking.disconnected(peer)

    # ------------------------------------------------------------ pushes

    def _push(self, message: Push, buffers: list[Bytes], reply: Reply) -> None:
        """Take a push; what is malformed raises a `UsageError`, before it is decided."""
        failpoint("server.before_decide")
        with self._standing.lock:
            layout = self._standing.slots.layouts.get(message.part)
        plain = None if layout is None else decode_push(layout, message, buffers)
        with self._standing.lock:
            answer = self._decide_push(message, plain, reply)
        if isinstance(answer, Pushed) and answer.verdict in {"prepared", "held"}:
            failpoint("server.after_prepare")
        carry_out(answer, reply)
        self._locking.go_on()

    def _decide_push(
        self, message: Push, plain: Plain | None, reply: Reply
    ) -> Message | Action:
        """Under the lock: the answer, or what leads to it."""
        state, slots = self._standing.state, self._standing.slots
        layout = slots.layouts.get(message.part)
        if layout is None or state.refusal_of(message) is not None:
            refusal = state.push(message).refusal
            assert refusal is not None, f"{message} was decided without its part"
            return refusal
        early = self._standing.early.take(message)
        if early is None:
            return self._waiting("not all that the push names has come ahead of it")
        if plain is None:  # the part has come this very moment
            return self._waiting(f"part {message.part} has just been created")
        contents = self._read_push(layout, message, plain, early)
        if isinstance(contents, Refusal):
            return contents
        lost = self._standing.held.why_lost(message, contents)
        decision = state.push(message, lost)
        if decision.refusal is not None:
            return decision.refusal
        self._standing.held.decided(message, decision.verdict, contents)
        if decision.verdict == "repeat":
            return self._waiting("the push is being applied")
        version = state.stands_at(message.part).version
        if decision.verdict == "apply":
            contents = at_rate(contents, decision.rate)
            actions = slots.applying(message.part, contents, decision.slots)
            slots.lent(message.part).count(version)
            pushed = Pushed(verdict="applied", version=version)
            acknowledge = functools.partial(self._acknowledge, message, pushed, reply)
            return slots.line_up(actions, acknowledge, message.incarnation)
        if decision.verdict in {"duplicate", "late", "void", "again"}:
            return Pushed(verdict=decision.verdict, version=version)
        if decision.verdict == "prepare":
            push = PreparedPush(contents, frozenset(decision.slots))
            self._standing.prepared[message.part, message.incarnation] = push
        return self._answer_kept(message, version, reply)

    def _answer_kept(self, message: Push, version: int, reply: Reply) -> Message | Action:
        """A push waits for its round or its step, unless its step is here with it."""
        if self._standing.state.steps().is_whole(message.incarnation, message.completes):
            pushed = Pushed(verdict="applied", version=version + 1)
            acknowledge = functools.partial(self._acknowledge, message, pushed, reply)
            steps = {message.incarnation: message.completes}
            return self._standing.take_steps(steps, acknowledge)
        return Pushed(verdict="held" if message.is_held else "prepared", version=version)

    def _read_push(
        self, layout: PartLayout, message: Push, plain: Plain, early: Gradients
    ) -> PushContents | Refusal:
        """Under the lock: what a push holds, or why it is not even decided."""
        buffers, *counted = plain
        self._standing.traffic.note(message.part, "gradient", *counted)
        is_kept = message.round is not None or message.is_held
        if is_kept and not message.is_lent:  # until its round, or its step
            buffers = [own(buffer) for buffer in buffers]
        try:
            contents = read_push(layout, message, buffers)
        except UsageError as error:
            return invalid(message, error)
        contents.blocks.update(early)
        touched = (*contents.blocks, *contents.sparse, *contents.rows)
        return self._standing.slots.refusal_of(touched, message) or contents

    def _acknowledge(self, message: Push, pushed: Pushed, reply: Reply) -> None:
        """The numbers of a push have followed on all slots, or never will."""
        with self._standing.lock:
            self._standing.state.settled(message)
        failpoint("server.before_ack")
        give(reply, self._standing.unless_failed(pushed))
        failpoint("server.after_ack")

    # ------------------------------------------------------------ reads

    def _ask(
        self, peer: Peer, message: Pull | PullRows, buffers: list[Bytes], reply: Reply
    ) -> None:
        now_s = self._clock.now_s()
        since_s = self._parked.since_s(message, now_s)
        self._read(Read(peer, message, buffers, reply, now_s + PARK_S, since_s))

    def _read(self, request: Read) -> None:
        with self._standing.lock:
            answer = self._decide_read(request)
            if answer is None:
                self._parked.park(request)
                return
        carry_out(answer, request.reply)

    def _decide_read(self, request: Read) -> Message | Action | None:
        """Under the lock: the answer, what leads to it, or None: it must wait."""
        state, slots, message = self._standing.state, self._standing.slots, request.message
        refusal = state.refusal_of(message)
        if refusal is not None:
            return refusal
        layout = slots.layouts.get(message.part)
        if layout is None:
            text = f"part {message.part} is not here yet"
            return Refusal(kind="not_ready", text=text, timeline=message.timeline)
        at = state.stands_at(message.part)
        if at.applied_round < message.at_round:
            return None
        try:
            if isinstance(message, Pull):
                place = slots.lent(message.part).place()
                if message.reads_there and place is not None:
                    there = Pulled(slots=(), round=at.applied_round, is_there=True)
                    turns = dict.fromkeys(layout.blocks, _nothing)
                    done = functools.partial(give, request.reply, there)
                    return slots.line_up_read(turns, done, message)
                known = read_known(layout, message)
                blocks = layout.blocks.items()
                sizes = {s: coded_block_bytes(b) for s, b in blocks if s not in known}
                places = places_of(request.reply, list(sizes.values()))
                unknown = dict(zip(sizes, places, strict=True))
                codecs = {s: b.value_codec for s, b in blocks if b.value_codec is not None}
                awaited = functools.partial(is_awaited, request.reply)
                actions, reads = slots.reading_blocks(unknown, known, codecs, awaited)
                told = place if message.asks_place else None
                done = functools.partial(self._answer_reads, request, reads, at, told)
                return slots.line_up_read(actions, done, message)
            wanted = read_pull_rows(layout, message, request.buffers)
        except UsageError as error:
            return invalid(message, error)
        plain_bytes, row_sizes = coded_row_sizes(layout, wanted)
        self._standing.traffic.note(message.part, "value", plain_bytes, sum(row_sizes))
        rows = places_of(request.reply, row_sizes)
        codec = layout.value_codec
        actions = slots.reading_rows(wanted, rows, create=message.create, codec=codec)
        pulled_rows = PulledRows(version=at.version, round=at.applied_round)
        done = functools.partial(give, request.reply, pulled_rows, rows)
        return slots.line_up_read(actions, done, message)

    def _answer_reads(
        self, request: Read, reads: BlockReads, at: PartReport, told: ValuesPlace | None
    ) -> None:
        """All blocks are copied, or nobody waits for them any more."""
        if not reads.is_whole:
            return
        with self._standing.lock:
            traffic, counted = self._standing.traffic, reads.count_bytes()
            traffic.note(request.message.part, "value", *counted)
        give(request.reply, *reads.answer(at, told))

    def _look_at_parked(self) -> None:
        """Something has changed: answer what can be answered now."""
        with self._standing.lock:
            parked = self._parked.take_all()
        for request in parked:
            self._read(request)
        self._locking.look_again()

    def _pass_time(self) -> None:
        while not self._stopping.wait(TICK_S):
            now_s = self._clock.now_s()
            self._locking.pass_time(now_s)
            with self._standing.lock:
                put_off = self._parked.put_off(now_s)
            for request, wait in put_off:
                give(request.reply, Waiting(wait=wait))

    def _waiting(self, reason: str) -> Waiting:
        return Waiting(wait=wait_for("servers", reason, [self._standing.server]))


def _nothing() -> None:
    pass

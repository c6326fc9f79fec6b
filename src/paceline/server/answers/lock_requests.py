"""Locks and held pushes of one server: who waits is answered when it is its turn.

::

    Lock -> its turn -> rows are read, behind all that was written before -> Locked
            parked     at most `PARK_S`, then `Waiting` with who has them
    Push with a token, decided -> the lock is let go, in the same breath -> who is next

Waits for nothing. Any thread may call.
"""

import functools
from collections.abc import Callable
from typing import final

from paceline.errors import UsageError
from paceline.messages.data import PullRows
from paceline.messages.locking import ApplyStep, KeepLocks, Lock, Locked, Unlock
from paceline.messages.shared import Done, Message, Refusal, Waiting
from paceline.messages.waits import Wait
from paceline.parking import Parking
from paceline.server.answers.answers import (
    RowsReply,
    Waiters,
    WaitingRequest,
    carry_out,
    give,
    invalid,
)
from paceline.server.held_pushes import LockKey
from paceline.server.locks import (
    LockAsker,
    LockEffect,
    LockGranted,
    LockRefused,
    LockWaits,
)
from paceline.server.requests.contents import Bytes, read_pull_rows
from paceline.server.slots import Action
from paceline.server.standing import ServerCore
from paceline.timing import Clock
from paceline.transport.service import Peer, Reply

Read = Callable[[Peer, PullRows, list[Bytes], Reply], None]
LockMessage = Lock | Unlock | KeepLocks | ApplyStep


@final
class Locking:
    """The locks of one server, as trainers see them."""

    def __init__(self, standing: ServerCore, clock: Clock, read: Read) -> None:
        """Nobody waits; ``read`` answers who asks for rows, now or later."""
        self._standing, self._clock, self._read = standing, clock, read
        parked = Parking[LockKey, WaitingRequest](is_looked_at=False)
        # Who comes back behind a connection that has gone keeps its place for a while.
        self.waiters = Waiters(
            standing, clock, self._decide, lambda asked: _key(asked.message), parked
        )

    def received(
        self, peer: Peer, message: LockMessage, buffers: list[Bytes], reply: Reply
    ) -> None:
        """Take a trainer's request."""
        if isinstance(message, Lock):
            self.waiters.ask(peer, message, buffers, reply)
        elif isinstance(message, ApplyStep):
            self._apply_step(message, reply)
        else:
            give(reply, self._note(message))
        self.go_on()

    def look_again(self) -> None:
        """Something has changed: answer what can be answered now."""
        self.waiters.look_again()
        self.go_on()

    def go_on(self) -> None:
        """Answer whose turn has come; those who are not here ask again by themselves."""
        held = self._standing.held
        while held.turns:
            with self._standing.lock:
                turns, held.turns = held.turns, []
            for key in turns:
                self.waiters.look_at(key)

    def pass_time(self, now_s: float) -> None:
        """Let go what has run out; answer those who have waited long enough."""
        with self._standing.lock:
            self._standing.held.expire()
            due = self.waiters.parked.due(now_s)
        for key, _ in due:
            self.waiters.look_at(key)
        self.go_on()

    # ------------------------------------------------------------ requests

    def _decide(self, asked: WaitingRequest) -> Message | Action | None:
        """Under the lock: the answer, what leads to it, or None: it must wait."""
        effect = self._effect(asked)
        if isinstance(effect, Refusal):
            return effect
        if isinstance(effect, LockGranted):
            locked = Locked(token=effect.token)
            reply = RowsReply(asked.reply, lambda _: locked)
            return functools.partial(
                self._read, asked.peer, _pull(asked.message), asked.buffers, reply
            )
        if isinstance(effect, LockWaits):
            if asked.until_s > (now := self._clock.now_s()):
                return None
            wait = Wait("lock", effect.reason, (effect.first,))
            return Waiting(wait=wait.lasting(now - effect.since_s))
        assert isinstance(effect, LockRefused), f"{effect} is no answer to {asked.message}"
        timeline = asked.message.timeline
        return Refusal(kind="lock_lost", text=effect.reason, timeline=timeline)

    def _effect(self, asked: WaitingRequest) -> LockEffect | Refusal:
        message: Lock = asked.message
        refusal = self._standing.state.may_lock(message)
        if refusal is not None:
            return refusal
        layout = self._standing.slots.layouts[message.part]
        try:
            [table] = read_pull_rows(layout, _pull(message), asked.buffers)
        except UsageError as error:
            return invalid(message, error)
        return self._standing.held.ask(message, asked.peer.role, table.ids)

    def _note(self, message: Unlock | KeepLocks) -> Message:
        with self._standing.lock:
            refusal = self._standing.state.refusal_of(message)
            if refusal is not None:
                return refusal
            if isinstance(message, KeepLocks):
                self._standing.held.keep(message)
                return Done()
            self.waiters.parked.take(_key(message))  # its asker has gone on
            self._standing.held.let_go(_key(message))
            return Done()

    def _apply_step(self, message: ApplyStep, reply: Reply) -> None:
        with self._standing.lock:
            state = self._standing.state
            answer: Message | Action | None = state.refusal_of(message)
            who, pushes = message.incarnation, message.pushes
            if answer is None and message.is_dropped:
                self._standing.held.drop(state, who, pushes)
                answer = Done()
            elif answer is None and state.holds_step(who, pushes):
                answer = self._standing.take_steps(
                    {who: pushes}, lambda: give(reply, self._standing.unless_failed(Done()))
                )
            elif answer is None and state.has_settled(who, pushes):
                answer = Done()
            elif answer is None:
                answer = Waiting(wait=Wait("servers", "the step is being applied"))
        carry_out(answer, reply)


def _key(message: Lock | Unlock) -> LockKey:
    return LockKey(message.part, LockAsker(message.incarnation, message.number))


def _pull(message: Lock) -> PullRows:
    """What reads the rows of a lock."""
    who = {"incarnation": message.incarnation, "timeline": message.timeline}
    return PullRows(**who, part=message.part, rows=(message.rows,), create=False)

"""Pushes: read and checked, then decided; their numbers follow.

::

    push -> read and checked -> decided -> numbers, slot by slot -> acknowledged
                                `------ under one lock, lined up ------'

What few pushes have (rows behind them, a codec, gradients that came ahead, a lock, a round,
a step) is asked for only where it is there.

Waits for nothing but the lock of the `ServerCore`. Any thread may call;
the one that brings a push runs what it lets happen, and whatever waits at the same slots.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, final

import msgspec

from paceline.errors import UsageError
from paceline.failpoints import failpoint
from paceline.messages.data import PullRows, Push, Pushed
from paceline.messages.shared import Message, Refusal, Waiting
from paceline.messages.waits import wait_for
from paceline.server.answers.answers import give, invalid
from paceline.server.answers.rows_behind_push import with_rows
from paceline.server.decisions.verdicts import LastPush, PushDecision
from paceline.server.requests import Gradients, PartLayout, decode_push
from paceline.server.requests.contents import Bytes, PreparedPush, PushContents, read_push
from paceline.server.slots import Action, at_rate
from paceline.server.standing import ServerCore
from paceline.transport.service import Peer, Reply, own


class _Read(NamedTuple):
    """What a push holds, by what of its part lay here; of so many bytes as it came."""

    layout: PartLayout
    contents: PushContents
    sent_bytes: int


@final
class Pushes:
    """Answers the pushes of trainers."""

    def __init__(
        self,
        standing: ServerCore,
        ask: Callable[[Peer, PullRows, list[Bytes], Reply], None],
        go_on: Callable[[], None],
    ) -> None:
        """Nothing has come.

        Args:
            standing: of the server.
            ask: answers who asks for rows.
            go_on: answers whose turn it is at a lock.
        """
        self._standing, self._ask, self._go_on = standing, ask, go_on

    def received(
        self, peer: Peer, message: Push, buffers: list[Bytes], reply: Reply
    ) -> None:
        """Take a push; one that does not fit what is here changes nothing."""
        standing = self._standing
        try:
            if message.behind is not None:
                ask = functools.partial(self._ask, peer)
                buffers, reply = with_rows(message, buffers, reply, ask)
            failpoint("server.before_decide")
            read = self._read(message, buffers)
        except UsageError as error:
            with standing.lock:
                early = self._early(message)
            refused = early if isinstance(early, Refusal | Waiting) else None
            give(reply, refused or invalid(message, error))
            return
        with standing.lock:
            answer = self._decide(message, read, reply)
        if isinstance(answer, Pushed) and answer.verdict in {"prepared", "held"}:
            failpoint("server.after_prepare")
        if isinstance(answer, msgspec.Struct):
            give(reply, answer)
        else:
            answer()
        if standing.held.turns:
            self._go_on()

    def _read(self, message: Push, buffers: list[Bytes]) -> _Read | None:
        """What a push holds; None if its part is not here.

        Raises:
            UsageError: it does not fit the part.
        """
        with self._standing.lock:
            layout = self._standing.slots.layouts.get(message.part)
        if layout is None:
            return None
        coded_bytes = None
        if layout.codec is not None:
            buffers, _, coded_bytes = decode_push(layout, message, buffers)
        is_kept = message.round is not None or message.is_held
        if is_kept and not message.is_lent:  # until its round, or its step
            buffers = [own(buffer) for buffer in buffers]
        contents = read_push(layout, message, buffers)
        sent_bytes = contents.num_bytes if coded_bytes is None else coded_bytes
        return _Read(layout, contents, sent_bytes)

    def _decide(self, message: Push, read: _Read | None, reply: Reply) -> Message | Action:
        """Under the lock: the answer, or what leads to it."""
        standing, part = self._standing, message.part
        if read is None or standing.slots.layouts.get(part) is not read.layout:
            refusal = standing.state.may_change(message)
            return refusal or self._waiting(f"part {part} has just been created")
        why_not = self._why_not(message, read)
        if why_not is not None:
            return why_not
        contents, held = read.contents, standing.held
        lost = None if message.token is None else held.why_lost(message, contents)
        decision = standing.state.push(message, lost)
        if decision.refusal is not None:
            return decision.refusal
        if decision.verdict == "hold" or message.token is not None:
            held.decided(message, decision.verdict, contents)
        if decision.verdict != "apply":
            return self._answer(message, contents, decision, reply)
        if decision.rate != 1.0:
            contents = at_rate(contents, decision.rate)
        version, last = decision.version, decision.last
        pushed = Pushed(verdict="applied", version=version)
        done = functools.partial(self._acknowledge, pushed, reply, last)
        owner = message.incarnation
        return standing.slots.push(part, contents, decision.slots, version, done, owner)

    def _why_not(self, message: Push, read: _Read) -> Refusal | Waiting | None:
        """Why a push is not even decided; if it is, what came ahead of it is with it."""
        standing, contents = self._standing, read.contents
        if message.early or standing.early.staged:
            early = self._early(message)
            if isinstance(early, Refusal | Waiting):
                return early
            contents.blocks.update(early)
        of_part = f"part-{message.part}"
        standing.traffic[f"{of_part}.gradient_bytes"] += contents.num_bytes
        standing.traffic[f"{of_part}.gradient_bytes_sent"] += read.sent_bytes
        if not standing.slots.full:
            return None
        touched = (*contents.blocks, *contents.sparse, *contents.rows)
        refusal = standing.state.refusal_of(message)
        return refusal or standing.slots.refusal_of(touched, message)

    def _early(self, message: Push) -> Gradients | Refusal | Waiting:
        """Under the lock: what has come ahead of a push, or why it is not decided."""
        refusal = self._standing.state.refusal_of(message)
        if refusal is not None:
            return refusal
        early = self._standing.early.take(message)
        if early is None:
            return self._waiting("not all that the push names has come ahead of it")
        return early

    def _answer(
        self, message: Push, contents: PushContents, decision: PushDecision, reply: Reply
    ) -> Message | Action:
        """What is said of a push that is not applied at once."""
        verdict = decision.verdict
        if verdict == "repeat":
            return self._waiting("the push is being applied")
        version = self._standing.state.stands_at(message.part).version
        if verdict in {"duplicate", "late", "void", "again"}:
            return Pushed(verdict=verdict, version=version)
        if verdict == "prepare":
            push = PreparedPush(contents, frozenset(decision.slots))
            self._standing.prepared[message.part, message.incarnation] = push
        return self._answer_kept(message, version, reply)

    def _answer_kept(self, message: Push, version: int, reply: Reply) -> Message | Action:
        """A push waits for its round or its step, unless its step is here with it."""
        if self._standing.state.steps().is_whole(message.incarnation, message.completes):
            pushed = Pushed(verdict="applied", version=version + 1)
            acknowledge = functools.partial(self._acknowledge, pushed, reply)
            steps = {message.incarnation: message.completes}
            return self._standing.take_steps(steps, acknowledge)
        return Pushed(verdict="held" if message.is_held else "prepared", version=version)

    def _acknowledge(
        self, pushed: Pushed, reply: Reply, last: LastPush | None = None
    ) -> None:
        """The numbers of a push have followed on all slots, or never will."""
        if last is not None:
            with self._standing.lock:
                last.is_settled = True
        failpoint("server.before_ack")
        if self._standing.failure is None:
            reply(pushed)
        else:
            give(reply, self._standing.unless_failed(pushed))
        failpoint("server.after_ack")

    def _waiting(self, reason: str) -> Waiting:
        return Waiting(wait=wait_for("servers", reason, [self._standing.server]))

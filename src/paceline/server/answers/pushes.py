"""Pushes: read and checked, then decided; their numbers follow.

::

    push -> read and checked -> decided, lined up -> numbers, slot by slot -> acknowledged
                                `-under one lock-'

What few pushes have (rows behind them, a codec, gradients that came ahead, a lock, a round,
a step) is asked for only where it is there.

Waits for nothing but the lock of the `ServerCore`. Any thread may call;
the one that brings a push runs what it lets happen, and whatever waits at the same slots.
"""

import functools
from collections.abc import Callable, Sequence
from typing import final

import msgspec
import torch

from paceline.errors import UsageError
from paceline.failpoints import armed, failpoint
from paceline.messages.data import PullRows, Push, PushEarly, Pushed
from paceline.messages.shared import Done, Hyper, HyperValue, Message, Refusal, Waiting
from paceline.messages.waits import wait_for
from paceline.server.answers.answers import give, invalid, with_rows
from paceline.server.decisions.verdicts import LastPush, PushDecision
from paceline.server.requests import (
    Gradients,
    PartLayout,
    decode_push,
    read_early,
    read_together,
)
from paceline.server.requests.contents import (
    Bytes,
    PreparedPush,
    PushContents,
    misfit,
    read_others,
)
from paceline.server.slots import Action, at_rate, nothing
from paceline.server.standing import ServerCore
from paceline.transport.service import Peer, Reply, own


class _Read(msgspec.Struct, frozen=True):
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
        """``ask`` answers who asks for rows, ``go_on`` whose turn it is at a lock."""
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
            if armed:
                failpoint("server.before_decide")
            read = self._read(message, buffers)
        except UsageError as error:
            with standing.lock:
                early = self._early(message)
            refused = early if isinstance(early, Refusal | Waiting) else None
            give(reply, refused or invalid(message, error))
            return
        answer = self._decide(message, read, reply)
        if armed and isinstance(answer, Pushed) and answer.verdict in {"prepared", "held"}:
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
        # Without the lock: when it is decided, it is asked whether this still lies here.
        layout = self._standing.slots.layouts.get(message.part)
        if layout is None:
            return None
        coded_bytes = None
        if layout.codec is not None:
            buffers, coded_bytes = decode_push(layout, message, buffers)
        is_kept = message.round is not None or message.is_held
        if is_kept and not message.is_lent:  # until its round, or its step
            buffers = [own(buffer) for buffer in buffers]
        contents = read_push(layout, message, buffers)
        sent_bytes = contents.num_bytes if coded_bytes is None else coded_bytes
        return _Read(layout, contents, sent_bytes)

    def _decide(self, message: Push, read: _Read | None, reply: Reply) -> Message | Action:
        """The answer, or what leads to it; a push that is applied at once is, in here."""
        lock, is_held = self._standing.lock, True
        lock.acquire()
        try:
            decision = self._decision(message, read)
            if not isinstance(decision, PushDecision):
                return decision
            assert read is not None, "else it is not decided"
            contents, version = read.contents, decision.version
            if decision.verdict != "apply":
                return self._answer(message, contents, decision, reply)
            if decision.rate != 1.0:
                contents = at_rate(contents, decision.rate)
            pushed = Pushed(verdict="applied", version=version)
            done = functools.partial(self._acknowledge, pushed, reply, decision.last)
            push, what = self._standing.slots.push, (contents, decision.slots, version)
            is_held = False  # by this method; `push` lets it go
            is_over = push(message.part, *what, message.incarnation, done, lock.release)
            return done if is_over else nothing
        finally:
            if is_held:
                lock.release()

    def _decision(
        self, message: Push, read: _Read | None
    ) -> PushDecision | Refusal | Waiting:
        """Under the lock: what happens to a push; or why it does not come to that."""
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
        return decision

    def _why_not(self, message: Push, read: _Read) -> Refusal | Waiting | None:
        """Why a push is not even decided; if it is, what came ahead of it is with it."""
        standing, contents = self._standing, read.contents
        if message.early or standing.early.staged:
            early = self._early(message)
            if isinstance(early, Refusal | Waiting):
                return early
            contents.blocks.update(early)
        what, traffic = f"part-{message.part}.gradient_bytes", standing.traffic
        traffic[what] += contents.num_bytes
        traffic[what + "_sent"] += read.sent_bytes
        if not standing.slots.full:
            return None
        touched = (*contents.blocks, *contents.sparse, *contents.row_slots())
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
        version = self._standing.state.part(message.part).version
        if verdict in {"duplicate", "late", "void", "again"}:
            return Pushed(verdict=verdict, version=version)
        if verdict == "prepare":
            push = PreparedPush(frozenset(decision.slots), contents)
            self._standing.prepared[message.part, message.incarnation] = push
        who, step = message.incarnation, message.completes
        if step and self._standing.state.is_whole(who, step):
            pushed = Pushed(verdict="applied", version=version + 1)
            acknowledge = functools.partial(self._acknowledge, pushed, reply)
            return self._standing.take_steps({who: step}, acknowledge)
        # It waits for its round or its step.
        return Pushed(verdict="held" if message.is_held else "prepared", version=version)

    def _acknowledge(
        self, pushed: Pushed, reply: Reply, last: LastPush | None = None
    ) -> None:
        """The numbers of a push have followed on all slots, or never will."""
        if last is not None:
            last.is_settled = True  # who repeats the push just before asks once more
        if armed:
            failpoint("server.before_ack")
        if self._standing.failure is None:
            reply(pushed)
        else:
            give(reply, self._standing.unless_failed(pushed))
        if armed:
            failpoint("server.after_ack")

    def _waiting(self, reason: str) -> Waiting:
        return Waiting(wait=wait_for("servers", reason, [self._standing.server]))


def read_push(layout: PartLayout, push: Push, buffers: Sequence[Bytes]) -> PushContents:
    """The numbers of a push, which is checked whole.

    Raises:
        UsageError: the push does not fit the part, or the buffers not the push.
    """
    _require_window(layout, push)
    num_pairs = len(push.sparse_blocks) + len(push.rows)
    if push.is_void and (push.blocks or push.early or num_pairs or push.stepped):
        raise UsageError("expected a push without effect to have no numbers, got some")
    slots = (*push.blocks, *push.early, *push.sparse_blocks)
    if len({*slots}) != len(slots):
        raise UsageError(f"expected distinct blocks, got {list(slots)}")
    num_dense = len(push.together or push.blocks)
    expected = num_dense + 2 * num_pairs + len(push.then)
    if len(buffers) != expected:
        raise UsageError(
            f"expected {expected} buffers behind the message, got {len(buffers)}"
        )
    rows_follow = layout.has_followers and bool(push.rows or push.stepped)
    hyper = _taken_hyper(layout, push.hyper) if slots or rows_follow else push.hyper
    blocks, num_bytes = dict[int, torch.Tensor](), 0
    if push.together:
        blocks, num_bytes = read_together(layout, push, buffers)
    else:
        for slot, buffer in zip(push.blocks, buffers, strict=False):
            block = layout.blocks.get(slot)
            if block is None or block.row_bytes or buffer.nbytes != block.num_bytes:
                raise misfit(layout, slot, buffer)
            blocks[slot] = torch.frombuffer(buffer, dtype=block.dtype)  # not empty
            num_bytes += block.num_bytes
    contents = PushContents(hyper, blocks, {}, num_bytes=num_bytes)
    if num_pairs or push.stepped or push.then or layout.compensation is not None:
        contents = read_others(layout, push, contents, buffers[num_dense:])
    if rows_follow:  # who cannot step is refused right here
        layout.row_step(hyper, 1.0)
    return contents


def _require_window(layout: PartLayout, push: Push) -> None:
    spans = push.window.spans
    is_whole = len(spans) < 2 or len({span.task for span in spans}) == len(spans)
    for _, first, last in spans:
        is_whole = is_whole and 0 <= first <= last
    if not is_whole:
        raise UsageError(f"expected a window of one or more batches, got {push.window}")
    # What belongs to no batch is applied at once, and only numbers that nobody trains.
    if not spans and (layout.learns() or push.round is not None):
        raise UsageError(
            f"part {layout.part}: expected a window of one or more batches, got none"
        )


def _taken_hyper(layout: PartLayout, hyper: tuple[Hyper, ...]) -> tuple[Hyper, ...]:
    """The hyper-parameters of a push, as the part's optimizer takes them.

    Mostly they equal the last ones, and then it takes those: where they had a ``True``, a
    ``1`` that equals it is none.
    """
    known = layout.known_hyper.groups
    if known is None or hyper != known:
        _require_hyper(layout, hyper)
        known = layout.known_hyper.groups = hyper
    return known


def _require_hyper(layout: PartLayout, hyper: tuple[Hyper, ...]) -> None:
    if len(hyper) != len(layout.groups):
        raise UsageError(
            f"part {layout.part}: expected hyper-parameters of {len(layout.groups)} "
            f"parameter groups, got {len(hyper)}"
        )
    for index, (agreed, came) in enumerate(zip(layout.groups, hyper, strict=True)):
        for name, known in agreed.items():
            value = came.get(name, known)
            if type(value) is type(known) is not tuple:  # by far the most
                continue
            if not _is_alike(known, value):
                raise UsageError(
                    f"part {layout.part}, group {index}: expected {name} to be like "
                    f"{known!r}, got {value!r}"
                )


def _is_alike(agreed: HyperValue, came: HyperValue) -> bool:
    """Whether an optimizer that took one can take the other: numbers stay numbers."""
    if isinstance(agreed, bool):
        return isinstance(came, bool)
    if isinstance(agreed, int | float):
        return isinstance(came, int | float) and not isinstance(came, bool)
    if isinstance(agreed, tuple):
        return isinstance(came, tuple) and len(came) == len(agreed)
    return True


def answer_early(
    standing: ServerCore, message: PushEarly, buffers: Sequence[Bytes], reply: Reply
) -> None:
    """Hold what a trainer's next push is going to name."""
    give(reply, _staged(standing, message, buffers))


def _staged(standing: ServerCore, message: PushEarly, buffers: Sequence[Bytes]) -> Message:
    if not message.is_lent:
        buffers = [own(buffer) for buffer in buffers]
    with standing.lock:
        refusal = standing.state.may_stage(message)
        if refusal is not None:
            return refusal
        try:
            layout = standing.slots.layouts[message.part]
            gradients = read_early(layout, message, buffers)
        except UsageError as error:
            return invalid(message, error)
        num_bytes = sum(buffer.nbytes for buffer in buffers)
        for name in ("gradient_bytes", "gradient_bytes_sent"):
            standing.traffic[f"part-{message.part}.{name}"] += num_bytes
        if standing.early.stage(message, gradients):
            return Done()
    reason = f"{standing.server} has no room for it ahead of its push"
    return Waiting(wait=wait_for("servers", reason, [standing.server]))

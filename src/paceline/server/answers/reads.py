"""Requests for values: answered once their round is applied, parked until then.

They stand at the slots behind all that was decided before them. Who has waited for `PARK_S`
is told what for, and asks again.

Waits for nothing but the lock of the `ServerCore`. Any thread may call.
"""

import functools
import itertools
from typing import final

import msgspec

from paceline.errors import UsageError
from paceline.messages.data import Pull, Pulled, PulledRows, PullRows, ValuesPlace
from paceline.messages.server import PartReport
from paceline.messages.shared import Message, Refusal, Waiting
from paceline.messages.waits import Wait
from paceline.parking import Parking
from paceline.server.answers.answers import Waiters, WaitingRequest, give, invalid
from paceline.server.requests import PartLayout, coded_block_bytes
from paceline.server.requests.contents import read_known, read_pull_rows
from paceline.server.slots import Action, BlockReads, nothing
from paceline.server.standing import ServerCore
from paceline.timing import Clock
from paceline.transport.service import is_awaited, places_of


class _Key(msgspec.Struct, frozen=True):
    """One of an asker's requests for values of a round."""

    who: tuple[int, int, int]  # incarnation, part, round
    number: int


@final
class Reads:
    """Answers who asks for values, by `Waiters.ask`."""

    def __init__(self, standing: ServerCore, clock: Clock) -> None:
        """Nobody waits; ``clock`` says for how long requests are parked."""
        self._standing = standing
        parked = Parking[_Key, WaitingRequest](is_looked_at=False, who=lambda key: key.who)
        self.waiters = Waiters(standing, clock, self._decide, self._key_of, parked)
        self._numbers = itertools.count()

    def _key_of(self, request: WaitingRequest) -> _Key:
        message = request.message
        who = message.incarnation, message.part, message.at_round
        return _Key(who, next(self._numbers))

    def pass_time(self, now_s: float) -> None:
        """Tell those who have waited for long what they wait for."""
        server, told, parked = self._standing.server, [], self.waiters.parked
        with self._standing.lock:
            for key, request in parked.due(now_s):
                part, at_round = request.message.part, request.message.at_round
                reason = f"round {at_round} of part {part} is not applied at {server} yet"
                wait = Wait("round", reason, (server,)).lasting(now_s - request.since_s)
                parked.put_off(key, wait, now_s)
                told.append((request, wait))
        for request, wait in told:
            give(request.reply, Waiting(wait=wait))

    def _decide(self, request: WaitingRequest) -> Message | Action | None:
        """Under the lock: the answer, what leads to it, or None: it must wait."""
        state, message = self._standing.state, request.message
        if self._standing.failure is not None:  # a round is there whose numbers are not
            return Refusal(kind="invalid", text=self._standing.failure)
        refusal = state.refusal_of(message)
        if refusal is not None:
            return refusal
        layout = self._standing.slots.layouts.get(message.part)
        if layout is None:
            text = f"part {message.part} is not here yet"
            return Refusal(kind="not_ready", text=text, timeline=message.timeline)
        at = state.stands_at(message.part)
        if at.applied_round < message.at_round:
            return None
        try:
            if isinstance(message, Pull):
                return self._read_blocks(request, message, layout, at)
            return self._read_rows(request, message, layout, at)
        except UsageError as error:
            return invalid(message, error)

    def _read_blocks(
        self, request: WaitingRequest, message: Pull, layout: PartLayout, at: PartReport
    ) -> Message | Action:
        slots, reply = self._standing.slots, request.reply
        place = slots.lent[message.part].place
        if message.reads_there and place is not None:
            there = Pulled(slots=(), round=at.applied_round, is_there=True)
            turns = dict.fromkeys(layout.blocks, nothing)
            return slots.line_up_read(turns, functools.partial(give, reply, there), message)
        known = read_known(layout, message)
        blocks = layout.blocks.items()
        sizes = {s: coded_block_bytes(b) for s, b in blocks if s not in known}
        places = places_of(reply, list(sizes.values()))
        unknown = dict(zip(sizes, places, strict=True))
        codecs = {s: b.value_codec for s, b in blocks if b.value_codec is not None}
        awaited = functools.partial(is_awaited, reply)
        reads = BlockReads(slots.shard, unknown, known, codecs, awaited)
        actions = {slot: functools.partial(reads.copy, slot) for slot in reads.slots}
        told = place if message.asks_place else None
        done = functools.partial(self._answer_blocks, request, reads, at, told)
        return slots.line_up_read(actions, done, message)

    def _answer_blocks(
        self,
        request: WaitingRequest,
        reads: BlockReads,
        at: PartReport,
        told: ValuesPlace | None,
    ) -> None:
        """All blocks are copied, or nobody waits for them any more."""
        if not reads.is_whole:
            return
        with self._standing.lock:
            self._count(request.message.part, *reads.count_bytes())
        give(request.reply, *reads.answer(at, told))

    def _read_rows(
        self, request: WaitingRequest, message: PullRows, layout: PartLayout, at: PartReport
    ) -> Message | Action:
        slots, reply = self._standing.slots, request.reply
        wanted = read_pull_rows(layout, message, request.buffers)
        codec = layout.value_codec
        forms = [(len(one.ids), one.form) for one in wanted]
        sizes = plain = [num * form.dim * form.dtype.itemsize for num, form in forms]
        if codec is not None:
            sizes = [codec.coded_row_bytes(num, form.dim) for num, form in forms]
        self._count(message.part, sum(plain), sum(sizes))
        rows = places_of(reply, sizes)
        actions = slots.actions.reading_rows(
            wanted, rows, create=message.create, codec=codec
        )
        pulled = PulledRows(version=at.version, round=at.applied_round)
        done = functools.partial(give, reply, pulled, rows)
        return slots.line_up_read(actions, done, message)

    def _count(self, part: int, plain_bytes: int, sent_bytes: int) -> None:
        """Under the lock: values have travelled, or are about to."""
        self._standing.traffic[f"part-{part}.value_bytes"] += plain_bytes
        self._standing.traffic[f"part-{part}.value_bytes_sent"] += sent_bytes

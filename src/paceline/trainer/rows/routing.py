"""From a batch's ids to what is asked of each server, and from gradients to what is sent.

::

    ids            7 7 3 9 3
    unique         7 3 9
    Route.ids      9 | 3 7           grouped by server, within a server by slot
    inverse        2 2 1 0 1         Route.ids[inverse] == ids
    pieces         server-0: 0..1    server-1: 1..3

Rows and their gradients lie in the order of `Route.ids`, so that what travels to or from
one server is one contiguous piece of memory.

Pure.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import msgspec
import numpy as np
import torch

from paceline.config import Combine
from paceline.messages.data import PulledRows, PullRows, Pushed
from paceline.messages.locking import RowSlots
from paceline.messages.shared import Message, PartPlan
from paceline.params.codecs import Codec
from paceline.params.rows import (
    Distinct,
    Float32s,
    Int64s,
    combine_equal,
    distinct_ids,
    sum_duplicates,
    table_key,
    unique_inverse,
)
from paceline.trainer.client import Attach, Payload
from paceline.transport.frames import ByteArray, WritableBuffer


class Piece(NamedTuple):
    """One server's rows: ``start..stop`` (half open) of a route's ids."""

    server: str
    start: int
    stop: int
    slots: RowSlots


class Route(msgspec.Struct, frozen=True):
    """Distinct ids in the order in which they travel."""

    ids: Int64s
    pieces: tuple[Piece, ...]


class RowGradient(msgspec.Struct, frozen=True):
    """Gradients of a route's rows, float32 ``(ids, dim)``, contiguous.

    Of a table of the user's own they are values of its dtype, which ``rule`` combines;
    ``replace`` where they are whole rows, whatever the table's own rule.
    """

    route: Route
    gradient: torch.Tensor
    rule: str = ""

    @property
    def has_sums(self) -> bool:
        """Whether what is not finite would spoil the rows: others can hold infinities."""
        return self.rule in {"", "add"}


@final
class Router:
    """Finds ids of one table their servers, as a plan has placed the slots."""

    def __init__(self, table: str, plan: PartPlan) -> None:
        self.plan = plan
        self._table, self._key = table, table_key(table)
        self._bounds = _bounds_of(table, plan)
        first = plan.first_row_slot
        placed = [(plan.placement[first + n], n) for n in range(plan.num_row_slots)]
        placed.sort()
        self._slots = [first + n for _, n in placed]  # as they travel
        self._positions = np.empty(len(placed), np.int64)
        self._positions[[n for _, n in placed]] = np.arange(len(placed))
        self._runs: dict[str, slice] = {}  # {server: its slots}
        for position, (server, _) in enumerate(placed):
            start = self._runs[server].start if server in self._runs else position
            self._runs[server] = slice(start, position + 1)

    def route(self, ids: Int64s) -> tuple[Route, Int64s]:
        """Find every id its server: int64 (n,), any values, repeated or not.

        The route of the distinct ids, and for each of ``ids`` its index in the route.
        """
        if self._bounds is None:
            found = distinct_ids(ids, self._key, self._positions)
        else:
            found = self._distinct_in_blocks(ids, self._bounds)
        counts: list[int] = found.counts.tolist()
        pieces: list[Piece] = []
        start = 0
        for server, run in self._runs.items():
            here = [
                (slot, count)
                for slot, count in zip(self._slots[run], counts[run], strict=True)
                if count
            ]
            if here:
                slots, held = zip(*here, strict=True)
                named = RowSlots(self._table, slots, held)
                stop = start + sum(named.counts)
                pieces.append(Piece(server, start, stop, named))
                start = stop
        return Route(found.ids, tuple(pieces)), found.inverse

    def _distinct_in_blocks(self, ids: Int64s, bounds: Int64s) -> Distinct:
        """As `distinct_ids`, where a block is a range of ids."""
        unique, inverse = unique_inverse(ids)
        blocks = np.searchsorted(bounds, unique, side="right") - 1
        positions = self._positions[blocks]
        order = np.argsort(positions, kind="stable")
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        counts = np.bincount(positions, minlength=len(self._positions))
        return Distinct(unique[order], places[inverse], counts)


def _bounds_of(table: str, plan: PartPlan) -> Int64s | None:
    """The first row of each block of a dense table, and the first behind the last."""
    [combine] = [spec.optimizer for spec in plan.spec.tables if spec.name == table]
    if not isinstance(combine, Combine) or combine.num_rows is None:
        return None
    count = plan.num_row_slots
    starts = [combine.bounds(block, count)[0] for block in range(count)]
    return np.array([*starts, combine.num_rows], np.int64)


def merge(table: str, plan: PartPlan, gradients: Sequence[RowGradient]) -> RowGradient:
    """The gradients of several lookups of one table as one: those of equal ids add up.

    They add up in the order of the lookups, as autograd would accumulate them.
    """
    if len(gradients) == 1:
        return gradients[0]
    ids = np.concatenate([gradient.route.ids for gradient in gradients])
    route, inverse = Router(table, plan).route(ids)
    rows = torch.cat([gradient.gradient for gradient in gradients]).numpy()
    rule = gradients[0].rule
    if rule:
        assert all(gradient.rule == rule for gradient in gradients), "one rule a window"
        combined = combine_equal(rule, inverse, rows, len(route.ids))
        return RowGradient(route, torch.from_numpy(combined), rule)
    sums = sum_duplicates(inverse, rows, len(route.ids))
    return RowGradient(route, torch.from_numpy(sums))


class WantedRows(NamedTuple):
    """Rows of one table, and where they land: float32 ``(ids, dim)``, contiguous."""

    route: Route
    values: torch.Tensor


Requests = dict[tuple[str, int], Payload]  # {(server, part): question}


_Piece = tuple[RowSlots, Int64s, Float32s]  # what is asked for, and where it lands


def row_requests(
    part: int, wanted: Sequence[WantedRows], *, create: bool, codec: Codec | None = None
) -> Requests:
    """One question to each server that has any of these rows, of distinct tables of a part.

    With ``create`` rows are made that are unseen; values may be coded.
    """
    pieces: dict[str, list[_Piece]] = {}
    for route, values in wanted:
        rows = values.numpy()
        for server, start, stop, slots in route.pieces:
            piece = slots, route.ids[start:stop], rows[start:stop]
            pieces.setdefault(server, []).append(piece)
    return {
        (server, part): _request(part, found, create, codec)
        for server, found in pieces.items()
    }


def _request(part: int, pieces: list[_Piece], create: bool, codec: Codec | None) -> Payload:
    slots, ids, rows = zip(*pieces, strict=True)
    message = PullRows(incarnation=0, timeline=0, part=part, rows=slots, create=create)
    places: Sequence[WritableBuffer] = rows
    landed: Callable[[Message], Message] | None = None
    if codec is None:
        sizes = [place.nbytes for place in rows]
    else:
        sizes = [codec.coded_row_bytes(*place.shape) for place in rows]
        places, landed = _decoding(codec, rows, sizes)

    def land(reply: msgspec.Struct, _: Sequence[int]) -> Sequence[WritableBuffer]:
        return places if isinstance(reply, PulledRows) else []

    return Payload(message, ids, land, sizes, landed=landed)


def _decoding(
    codec: Codec, places: Sequence[Float32s], sizes: Sequence[int]
) -> tuple[list[ByteArray], Callable[[Message], Message]]:
    """Where coded rows land, and what brings them home when all are there."""
    coded: list[ByteArray] = [np.empty(size, np.uint8) for size in sizes]

    def landed(reply: Message) -> Message:
        if isinstance(reply, PulledRows):
            for place, came in zip(places, coded, strict=True):
                codec.decode_rows(came, place)
        return reply

    return coded, landed


def pushed_with(push: Payload, rows: Payload) -> Payload:
    """A push and the question for rows behind it as one: their values come with its reply.

    Nothing lands of the reply of the push itself.
    """
    land_rows, rows_landed = rows.landing, rows.landed
    assert land_rows is not None

    def land(reply: msgspec.Struct, sizes: Sequence[int]) -> Sequence[WritableBuffer]:
        if isinstance(reply, Pushed) and reply.behind is not None:
            return land_rows(reply.behind, sizes)
        return []

    def landed(reply: Message) -> Message:
        if rows_landed is not None and isinstance(reply, Pushed) and reply.behind:
            rows_landed(reply.behind)
        return reply

    return push._replace(
        buffers=[*push.buffers, *rows.buffers],
        landing=land,
        reply_sizes=rows.reply_sizes,
        landed=landed,
    )


def attaching(requests: Requests) -> Attach:
    """Give questions for rows their ids and landings, whoever is speaking by now."""

    def attach(role: str, message: Message) -> Payload:
        if isinstance(message, PullRows) and (role, message.part) in requests:
            return requests[role, message.part]._replace(message=message)
        return Payload(message)

    return attach

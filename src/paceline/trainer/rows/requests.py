"""Questions to servers for rows: one to each server, about all tables of a part.

Pure.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import torch

from paceline.messages.data import PulledRows, PullRows, Pushed
from paceline.messages.locking import RowSlots
from paceline.messages.shared import Message
from paceline.params.codecs import Codec
from paceline.params.rows import Float32s, Int64s
from paceline.trainer.client import Attach, Payload
from paceline.trainer.rows.routing import Route
from paceline.transport.frames import ByteArray, WritableBuffer


class WantedRows(NamedTuple):
    """Rows of one table, and where they land: float32 ``(ids, dim)``, contiguous."""

    route: Route
    values: torch.Tensor


Requests = dict[tuple[str, int], Payload]  # {(server, part): question}


class _Piece(NamedTuple):
    slots: RowSlots
    ids: Int64s
    place: Float32s


def row_requests(
    part: int, wanted: Sequence[WantedRows], *, create: bool, codec: Codec | None = None
) -> Requests:
    """What to ask each server that has any of these rows; tables are distinct.

    Args:
        part: of all the tables.
        wanted: rows, each of another table.
        create: make rows that are unseen.
        codec: that of the part's values, if they are coded.
    """
    pieces: dict[str, list[_Piece]] = {}
    for route, values in wanted:
        rows = values.numpy()
        for server, start, stop, slots in route.pieces:
            piece = _Piece(slots, route.ids[start:stop], rows[start:stop])
            pieces.setdefault(server, []).append(piece)
    return {
        (server, part): _request(part, found, create, codec)
        for server, found in pieces.items()
    }


def _request(part: int, pieces: list[_Piece], create: bool, codec: Codec | None) -> Payload:
    message = PullRows(
        incarnation=0,
        timeline=0,
        part=part,
        rows=tuple(piece.slots for piece in pieces),
        create=create,
    )
    places: Sequence[WritableBuffer] = [piece.place for piece in pieces]
    sizes = [piece.place.nbytes for piece in pieces]
    landed: Callable[[Message], Message] | None = None
    if codec is not None:
        sizes = [codec.coded_row_bytes(*piece.place.shape) for piece in pieces]
        places, landed = _decoding(codec, pieces, sizes)

    def land(reply: msgspec.Struct, _: Sequence[int]) -> Sequence[WritableBuffer]:
        return places if isinstance(reply, PulledRows) else []

    ids = [piece.ids for piece in pieces]
    return Payload(message, ids, land, sizes, landed=landed)


def _decoding(
    codec: Codec, pieces: list[_Piece], sizes: Sequence[int]
) -> tuple[list[ByteArray], Callable[[Message], Message]]:
    """Where coded rows land, and what brings them home when all are there."""
    coded: list[ByteArray] = [np.empty(size, np.uint8) for size in sizes]

    def landed(reply: Message) -> Message:
        if isinstance(reply, PulledRows):
            for piece, came in zip(pieces, coded, strict=True):
                codec.decode_rows(came, piece.place)
        return reply

    return coded, landed


def pushed_with(push: Payload, rows: Payload) -> Payload:
    """A push and the question for rows behind it as one: their values come with its reply.

    Args:
        push: with its own buffers; nothing lands of its reply.
        rows: from `row_requests`.
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


def attaching(requests: Requests, otherwise: Attach) -> Attach:
    """Give questions for rows their ids and landings, whoever is speaking by now."""

    def attach(role: str, message: Message) -> Payload:
        if isinstance(message, PullRows) and (role, message.part) in requests:
            return requests[role, message.part]._replace(message=message)
        return otherwise(role, message)

    return attach

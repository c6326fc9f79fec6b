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

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from paceline.messages import PartPlan, RowSlots
from paceline.params.rows.initial import table_key
from paceline.params.rows.kernels import Int64s
from paceline.params.rows.slots import group_by_slot, sum_duplicates, unique_ids


class Piece(NamedTuple):
    """One server's rows: ``start..stop`` (half open) of a route's ids."""

    server: str
    start: int
    stop: int
    slots: RowSlots


class Route(NamedTuple):
    """Distinct ids in the order in which they travel."""

    ids: Int64s
    pieces: tuple[Piece, ...]


class RowGradient(NamedTuple):
    """Gradients of a route's rows, float32 ``(ids, dim)``, contiguous."""

    route: Route
    gradient: torch.Tensor


def route_ids(table: str, plan: PartPlan, ids: Int64s) -> tuple[Route, Int64s]:
    """Find every id its server.

    Args:
        table: its name.
        plan: of the table's part.
        ids: int64 (n,), any values, repeated or not.

    Returns:
        The route of the distinct ids, and for each of ``ids`` its index in the route.
    """
    unique, inverse = unique_ids(ids)
    order, pieces = _by_server(table, plan, unique)
    position = np.empty(len(unique), np.int64)
    position[order] = np.arange(len(unique))
    return Route(unique[order], pieces), position[inverse]


def merge(table: str, plan: PartPlan, gradients: Sequence[RowGradient]) -> RowGradient:
    """The gradients of several lookups of one table as one: those of equal ids add up.

    They add up in the order of the lookups, as autograd would accumulate them.
    """
    if len(gradients) == 1:
        return gradients[0]
    ids = np.concatenate([gradient.route.ids for gradient in gradients])
    unique, inverse = unique_ids(ids)
    rows = torch.cat([gradient.gradient for gradient in gradients]).numpy()
    sums = sum_duplicates(inverse, rows, len(unique))
    order, pieces = _by_server(table, plan, unique)
    return RowGradient(Route(unique[order], pieces), torch.from_numpy(sums[order]))


def _by_server(
    table: str, plan: PartPlan, unique: Int64s
) -> tuple[Int64s, tuple[Piece, ...]]:
    """The order of distinct ids by server and slot, and each server's piece of it."""
    by_slot, slots, counts = group_by_slot(unique, table_key(table), plan.num_row_slots)
    ends = np.cumsum(counts).tolist()
    runs: dict[str, list[int]] = {}  # {server: indices into slots}
    for index, slot in enumerate(slots):
        server = plan.placement[plan.first_row_slot + slot]
        runs.setdefault(server, []).append(index)
    order: list[Int64s] = []
    pieces: list[Piece] = []
    start = 0
    for server, run in sorted(runs.items()):
        order += [by_slot[ends[i] - counts[i] : ends[i]] for i in run]
        stop = start + sum(counts[i] for i in run)
        named = RowSlots(
            table,
            tuple(plan.first_row_slot + slots[i] for i in run),
            tuple(counts[i] for i in run),
        )
        pieces.append(Piece(server, start, stop, named))
        start = stop
    return np.concatenate(order) if order else by_slot, tuple(pieces)

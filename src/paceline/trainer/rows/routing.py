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
from typing import NamedTuple, final

import numpy as np
import torch

from paceline.config import Combine
from paceline.messages.locking import RowSlots
from paceline.messages.shared import PartPlan
from paceline.params.rows import (
    Distinct,
    Int64s,
    combine_equal,
    distinct_ids,
    sum_duplicates,
    table_key,
    unique_inverse,
)


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
        """Look at the plan once; every batch is routed by what was found."""
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
        """Find every id its server.

        Args:
            ids: int64 (n,), any values, repeated or not.

        Returns:
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


def route_ids(table: str, plan: PartPlan, ids: Int64s) -> tuple[Route, Int64s]:
    """As `Router.route`, for who routes ids of a table once."""
    return Router(table, plan).route(ids)


def merge(table: str, plan: PartPlan, gradients: Sequence[RowGradient]) -> RowGradient:
    """The gradients of several lookups of one table as one: those of equal ids add up.

    They add up in the order of the lookups, as autograd would accumulate them.
    """
    if len(gradients) == 1:
        return gradients[0]
    ids = np.concatenate([gradient.route.ids for gradient in gradients])
    route, inverse = route_ids(table, plan, ids)
    rows = torch.cat([gradient.gradient for gradient in gradients]).numpy()
    rule = gradients[0].rule
    if rule:
        assert all(gradient.rule == rule for gradient in gradients), "one rule a window"
        combined = combine_equal(rule, inverse, rows, len(route.ids))
        return RowGradient(route, torch.from_numpy(combined), rule)
    sums = sum_duplicates(inverse, rows, len(route.ids))
    return RowGradient(route, torch.from_numpy(sums))

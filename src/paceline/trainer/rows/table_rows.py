"""What one trainer has written to a table of the user's own, until servers have it.

::

    push         combined with what is read here from now on, and kept for the batch's push
    take         goes into a push, or waits for one with more batches
    drop         the push has left, or its batches are gone: servers have it, or nobody

It stands where a `EmbeddingRows` stands among a part's tables; nobody knows ahead which
rows will be read.

Called by the user's thread.
"""

from collections.abc import Sequence
from typing import final

import numpy as np
import torch

from paceline.config import Combine
from paceline.errors import RuleFailed, UsageError
from paceline.messages.shared import PartPlan, TableSpec
from paceline.params.rows import (
    Array,
    IdMap,
    Int64s,
    combine_equal,
    combine_rows,
    rule_failed,
    unique_inverse,
)
from paceline.trainer.rows.embedding_rows import RowReader
from paceline.trainer.rows.replica import Question, Replica, Written
from paceline.trainer.rows.routing import (
    Route,
    Router,
    RowGradient,
    WantedRows,
    row_requests,
)
from paceline.transport.frames import DATA_LIMITS, ByteArray


@final
class Unsent:
    """What one batch has pushed to a table by one rule, combined as it comes: id -> value.

    However many pushes and pulls a batch makes, each costs what its own ids do.
    """

    def __init__(self, table: str, first: Written) -> None:
        # Most batches push once.

        self.rule = first.rule
        self._table = table
        self._ids, self._values = first.ids, first.values
        self._index: IdMap | None = None  # once there is more than one question

    def add(self, ids: Int64s, values: Array) -> None:
        """Combine values (n, dim) of distinct ids (n,) with what is here.

        Raises:
            RuleFailed: the rule did; nothing has changed.
        """
        index = self._indexed()
        rows = index.find(ids)
        is_here = rows >= 0
        if is_here.any():
            try:
                combine_rows(self.rule, self._values, rows[is_here], values[is_here])
            except RuleFailed as error:
                raise rule_failed(self._table, ids[is_here], error) from error
        if not is_here.all():
            index.find_or_insert(ids[~is_here])
            count, known = len(index), len(index) - int((~is_here).sum())
            if count > len(self._values):
                room = (max(count, 2 * len(self._values)), values.shape[1])
                grown = np.empty(room, values.dtype)
                grown[:known] = self._values[:known]
                self._values = grown
            self._values[known:count] = values[~is_here]

    def combine_with(self, ids: Int64s, values: Array) -> None:
        """Combine what is here with rows (n, dim) of distinct ids (n,), in place."""
        rows = self._indexed().find(ids)
        is_here = rows >= 0
        if is_here.any():
            own = self._values[rows[is_here]]
            combine_rows(self.rule, values, np.flatnonzero(is_here), own)

    def written(self) -> Written:
        """All of it; nothing may be added any more."""
        if self._index is None:
            return Written(self._ids, self._values, self.rule)
        return Written(self._index.ids, self._values[: len(self._index)], self.rule)

    def _indexed(self) -> IdMap:
        if self._index is None:
            self._index = IdMap()
            self._index.find_or_insert(self._ids)
            self._values = self._values.copy()  # whoever has pushed them may keep them
        return self._index


@final
class TableRows:
    """The rows of one table, as this trainer reads and writes them."""

    def __init__(
        self, spec: TableSpec, part: int, reader: RowReader, begins: Array | None
    ) -> None:
        """Bind; ``begins`` (rows, dim) is what a dense table begins with, if it is told."""
        assert isinstance(spec.optimizer, Combine)
        self.spec, self.part, self.combine = spec, part, spec.optimizer
        self._reader, self._begins = reader, begins
        self._fresh: list[Unsent] = []  # not in a push yet
        self._taken: list[Unsent] = []  # in one that waits to leave
        self._router: Router | None = None  # for the plan of the last call
        self.is_rotating = False  # whether a loop has its blocks, one at a time
        # The trainer's own copy, if the table is replicated.
        self.replica: Replica | None = None
        # Of rows and ids in one request to a server.
        self.most_bytes = DATA_LIMITS.frame_bytes - DATA_LIMITS.header_bytes

    def read(self, ids: Int64s) -> Array:
        """The rows of ids (n,), repeated or not: (n, dim), with what is written here."""
        written = [*self._taken, *self._fresh]
        if self.replica is not None:
            unique, inverse = unique_inverse(ids)
            copied = self.replica.read(unique, self._wait_all)
            if copied is not None:
                for one in written:
                    one.combine_with(unique, copied)
                return copied[inverse]
        most = self._most_rows()
        if len(ids) > most:  # however they are spread over servers
            starts = range(0, len(ids), most)
            return np.concatenate([self.read(ids[at : at + most]) for at in starts])
        route, inverse = self.route(ids)
        values = self._wait(route)
        for one in written:
            one.combine_with(route.ids, values)
        return values[inverse]

    def require_latest(self, call: str) -> None:
        """What is asked for must be what servers have.

        Raises:
            UsageError: the table is replicated.
        """
        if self.replica is not None:
            raise UsageError(
                f"{call}: table {self.spec.name!r} is replicated, and nobody holds rows "
                f"that others have copies of: make it without replicate_every"
            )

    def write(self, ids: Int64s, values: Array, rule: str) -> None:
        """Keep values (n, dim) for the batch's push; those of equal ids are combined.

        Raises:
            UsageError: with what was written before, it is more than a request can carry.
            RuleFailed: a rule of the user's own did.
        """
        unique, inverse = unique_inverse(ids)
        self._require_room(unique)
        try:
            combined = combine_equal(rule, inverse, values, len(unique))
        except RuleFailed as error:
            raise rule_failed(self.spec.name, unique, error) from error
        if self._fresh and self._fresh[-1].rule == rule:
            self._fresh[-1].add(unique, combined)
        else:
            first = Written(unique, combined, rule)
            self._fresh.append(Unsent(self.spec.name, first))

    def has_written(self) -> bool:
        """Whether anything waits for a push."""
        return bool(self._fresh or self._taken)

    def initial(self, slot: int, plan: PartPlan) -> ByteArray:
        """What a slot of a dense table begins with."""
        assert self._begins is not None, "only who has values uploads them"
        number = slot - plan.first_row_slot
        server, rows = plan.placement[slot], 0
        for block in range(plan.num_row_slots):
            if plan.placement[plan.first_row_slot + block] == server:
                first, behind = self.combine.bounds(block, plan.num_row_slots)
                rows += behind - first
        self._require_few("init", server, rows, "start more servers, or push the rows")
        start, stop = self.combine.bounds(number, plan.num_row_slots)
        flat: ByteArray = self._begins[start:stop].reshape(-1).view(np.uint8)
        return flat

    # ------------------------------------------------------------ among a part's tables

    def take(self) -> Sequence[RowGradient]:
        """What was written since the last call, as it travels."""
        fresh, self._fresh = self._fresh, []
        self._taken += fresh
        found = []
        for ids, values, rule in [one.written() for one in fresh]:
            route, inverse = self.route(ids)
            routed = combine_equal(rule, inverse, values, len(route.ids))
            found.append(RowGradient(route, torch.from_numpy(routed), rule))
        return found

    def drop(self) -> None:
        """Servers have all that was written, or its batches are another's by now."""
        taken, self._fresh, self._taken = self._taken, [], []
        if self.replica is not None:
            written = [one.written() for one in taken]
            self.replica.pushed(written, lambda: self.question(self._all()))

    def waiting(self) -> Sequence[torch.Tensor]:
        """No gradient waits for a step of the user's."""
        return ()

    def route(self, ids: Int64s) -> tuple[Route, Int64s]:
        """Where ids (n,) lie, and for each its index there; any thread may call."""
        plan = self._reader.plan(self.part)
        if self._router is None or self._router.plan is not plan:
            self._router = Router(self.spec.name, plan)
        return self._router.route(ids)

    def question(self, ids: Int64s) -> Question:
        """What servers are asked for rows of ids (n,); any thread may call."""
        route, inverse = self.route(ids)
        values = np.empty((len(route.ids), self.spec.dim), self.combine.dtype)
        wanted = [WantedRows(route, torch.from_numpy(values))]
        requests = row_requests(self.part, wanted, create=False)
        by_server = {server: one for (server, _), one in requests.items()}
        return Question(by_server, values, inverse)

    def _most_rows(self) -> int:
        row_bytes = self.spec.dim * np.dtype(self.combine.dtype).itemsize
        return max(1, self.most_bytes // (row_bytes + 8))

    def _require_room(self, ids: Int64s) -> None:
        """A push of all that is written, and of these, must fit requests to servers."""
        written = [one.written().ids for one in [*self._taken, *self._fresh]]
        if len(ids) + sum(map(len, written)) <= self._most_rows():
            return
        route, _ = self.route(np.concatenate([*written, ids]))
        for piece in route.pieces:
            count = piece.stop - piece.start
            self._require_few("push", piece.server, count, "take smaller batches")

    def _require_few(self, call: str, server: str, count: int, then: str) -> None:
        most = self._most_rows()
        if count > most:
            raise UsageError(
                f"{call}: {count} rows of table {self.spec.name!r} for {server}, and a "
                f"request carries {most} of them ({self.most_bytes} bytes): {then}"
            )

    def _wait(self, route: Route) -> Array:
        values = np.empty((len(route.ids), self.spec.dim), self.combine.dtype)
        place = torch.from_numpy(values)
        self._reader.wait_rows(self.part, route, place, create=False)
        return values

    def _all(self) -> Int64s:
        assert self.combine.num_rows is not None, "a keyed table is not replicated"
        return np.arange(self.combine.num_rows)

    def _wait_all(self) -> Array:
        route, inverse = self.route(self._all())
        return self._wait(route)[inverse]

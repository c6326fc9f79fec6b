"""One collective call of one trainer: what it brings, whom it asks, what comes of it.

::

    allreduce    all of it, reduced in the order of the members
    reduce       the same, for one member
    regroup      of the same, this member's slice of the rows
    allgather    what each has brought, in the order of the members
    broadcast    what one has brought

Waits for nothing. The thread of the user's loop calls; values land by whoever receives.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple, final

import msgspec
import numpy as np

from paceline.errors import UsageError
from paceline.failpoints import failpoint
from paceline.messages.meeting import Exchange
from paceline.messages.peers import AskValues, Values
from paceline.messages.shared import Message
from paceline.trainer.client import Payload
from paceline.trainer.peers.outbox import PeerOutbox
from paceline.trainer.peers.reduction import (
    Array,
    How,
    reduce_in_order,
    slice_bounds,
    sliced,
    takes_two_hops,
)
from paceline.trainer.peers.through_servers import Served
from paceline.transport.frames import WritableBuffer

Kind = Literal["allreduce", "reduce", "regroup", "allgather", "broadcast"]
_REDUCES = frozenset({"allreduce", "reduce", "regroup"})


class Operation(NamedTuple):
    """What is to be computed.

    ``name`` is that of the table. ``rule`` reduces. ``root`` is whose values all get, or
    who gets the result; None: the first member.
    """

    name: str
    kind: Kind
    rule: str = "add"
    how: How = "auto"
    root: str | None = None


class Slice(NamedTuple):
    """Which rows of the whole an array has: ``start`` to one before ``stop``."""

    start: int
    stop: int


@final
class CollectiveCall:
    """The values of one call, until its round is committed; a `Collective`.

    Attributes:
        members: of the exchange that was begun last, by role id.
        results: what has come of each array; nothing where it is another member's.
        gathered: with ``allgather``: what each member has brought.
        rows: with ``regroup``: which rows each result has.
        is_committed: whether the round was; else results are of this trainer alone.
    """

    def __init__(
        self,
        trainer: str,
        address: str,
        operation: Operation,
        arrays: Sequence[Array],
        shelf: PeerOutbox,
        served: Served | None = None,
    ) -> None:
        """Bring ``arrays``, which must not change until the results are there.

        With ``served`` they go to servers, and come from there.
        """
        self._served = served
        self._me, self.address = trainer, address
        self._operation, self._shelf = operation, shelf
        self._shapes = [array.shape for array in arrays]
        is_flat = operation.kind in {"allreduce", "reduce"}
        self._own = [array.reshape(-1) if is_flat else array for array in arrays]
        self.what = _described(operation, arrays)
        self.members: tuple[str, ...] = (trainer,)
        self.results: list[Array] = []
        self.gathered: list[list[Array]] = []
        self.rows: list[Slice] = [Slice(0, len(array)) for array in self._own]
        self.is_committed = True
        self._givers: tuple[str, ...] = (trainer,)
        self._exchange = 0
        self._has_two_hops = False
        self._came: dict[tuple[str, int], list[Array]] = {}  # {(trainer, stage): values}

    def alone(self) -> None:
        """As if there were no other member: for a call whose round is gone."""
        self.is_committed = False
        self._operation = self._operation._replace(root=None)
        self.members = self._givers = (self._me,)
        self._has_two_hops = False
        self.came(0)

    def write(self) -> None:
        """Let what servers reduce leave with the batch's push; nothing else does."""
        if self._served is not None:
            self._served.write()

    def committed(self, at_round: int) -> bool:
        """The round is; false if what it came to is not to be had any more."""
        if self._served is None:
            return True
        if not self._givers:  # all that this round is of was counted before
            self.results = self._shaped([np.zeros_like(array) for array in self._own])
            return True
        found = self._served.result(at_round)
        if found is not None:
            self.results = self._shaped([found])
        return found is not None

    def begin(self, exchange: Exchange) -> int:
        """See `Collective.begin`."""
        self.members = tuple(member.trainer for member in exchange.members)
        self._givers = tuple(m.trainer for m in exchange.members if m.has_values)
        self._exchange, self._came = exchange.name, {}
        if self._served is not None:
            return 0
        kind, how = self._operation.kind, self._operation.how
        size = sum(array.nbytes for array in self._own)
        self._has_two_hops = kind == "allreduce" and takes_two_hops(
            how, size, len(self.members)
        )
        if self._me in self._givers:
            self._shelf.lay_out(exchange.name, 0, self._own)
            failpoint("trainer.laid_out")
        return 2 if self._has_two_hops else 1

    def questions(self, stage: int) -> dict[str, AskValues]:
        """See `Collective.questions`."""
        slices: tuple[int, int] | None = None
        if stage == 0 and self._is_sliced():
            slices = (self.members.index(self._me), len(self.members))
        question = AskValues(
            incarnation=0,
            timeline=0,
            to=0,
            exchange=self._exchange,
            stage=stage,
            slice_of=slices,
        )
        asked = self.members if stage else self._asked()
        return dict.fromkeys((name for name in asked if name != self._me), question)

    def asks_servers(self) -> dict[str, Message]:
        """See `Collective.asks_servers`."""
        return {} if self._served is None else self._served.questions()

    def came(self, stage: int) -> None:
        """See `Collective.came`."""
        if stage == 1:
            found = [self._came.get((name, 1), []) for name in self.members]
            self.results = self._shaped([np.concatenate(each) for each in _columns(found)])
            return
        brought = [self._brought(name) for name in self._asked()]
        if self._operation.kind == "allgather":
            self.gathered = [[array.copy() for array in one] for one in brought]
        elif self._operation.kind == "broadcast":
            self.results = [array.copy() for array in brought[0]]
        elif self._operation.kind == "reduce" and self._root() != self._me:
            self.results = []
        else:
            reduced = self._reduced(brought)
            if self._has_two_hops:
                self._came[self._me, 1] = reduced
                self._shelf.lay_out(self._exchange, 1, reduced)
            else:
                self.results = self._shaped(reduced)

    def attach_rows(self, role: str, message: Message) -> Payload | None:
        """A question to a server, with the place for what comes; None: it is another."""
        return None if self._served is None else self._served.attach(role, message)

    def attach(self, role: str, message: Message) -> Payload:
        """A question, with the place for what comes."""
        assert isinstance(message, AskValues)
        key = (role, message.stage)
        land = partial(self._land, key, message.exchange)
        return Payload(message, landing=land, reply_sizes=self._sizes(role, message.stage))

    def _land(
        self,
        key: tuple[str, int],
        exchange: int,
        reply: msgspec.Struct,
        sizes: Sequence[int],
    ) -> list[WritableBuffer]:
        assert isinstance(reply, Values)
        arrays = []
        for spec, size in zip(reply.arrays, sizes, strict=True):
            dtype = np.dtype(spec.dtype)
            if dtype.hasobject or dtype.itemsize * math.prod(spec.shape) != size:
                raise UsageError(f"{key[0]} sent {size} bytes as {spec}")
            arrays.append(np.empty(spec.shape, dtype))
        if exchange == self._exchange:
            self._came[key] = arrays
        return [array.reshape(-1).view(np.uint8) for array in arrays]

    def _sizes(self, name: str, stage: int) -> list[int]:
        """Bytes of what a member will say, as far as it is known."""
        if self._operation.kind == "allgather":
            return []
        if stage == 0 and not self._is_sliced():
            return [own.nbytes for own in self._own]
        index = self.members.index(name if stage else self._me)
        return [own.nbytes for own in sliced(self._own, index, len(self.members))]

    def _is_sliced(self) -> bool:
        return self._has_two_hops or self._operation.kind == "regroup"

    def _asked(self) -> tuple[str, ...]:
        """Whose values come into this member's result, in order."""
        kind = self._operation.kind
        if kind == "broadcast":
            return (self._root(),)
        if kind == "reduce" and self._root() != self._me:
            return ()
        return self._givers

    def _root(self) -> str:
        """Who gives, or gets.

        Raises:
            UsageError: the one that was named is not among the members.
        """
        root, kind = self._operation.root, self._operation.kind
        among = self._givers if kind == "broadcast" else self.members
        if root is None:
            return next(iter(among), self._me)
        if root not in among:
            raise UsageError(
                f"{kind}: {root} is not in this round, only {', '.join(among)}: a trainer "
                f"without a batch is in none; leave root out"
            )
        return root

    def _brought(self, name: str) -> list[Array]:
        """What a member has brought, or this member's slice of it."""
        if name != self._me:
            return self._came[name, 0]
        if not self._is_sliced():
            return self._own
        return sliced(self._own, self.members.index(self._me), len(self.members))

    def _reduced(self, brought: Sequence[list[Array]]) -> list[Array]:
        index, count = self.members.index(self._me), len(self.members)
        if self._operation.kind == "regroup":
            bounds = [slice_bounds(len(own), index, count) for own in self._own]
            self.rows = [Slice(*bound) for bound in bounds]
        if not brought:  # all that this round is of was counted before
            return [np.zeros_like(array) for array in self._brought(self._me)]
        rule = self._operation.rule
        return [reduce_in_order(rule, each) for each in _columns(brought)]

    def _shaped(self, flat: list[Array]) -> list[Array]:
        if self._operation.kind == "regroup":
            return flat
        return [array.reshape(s) for array, s in zip(flat, self._shapes, strict=True)]


def _columns(brought: Sequence[list[Array]]) -> list[tuple[Array, ...]]:
    """The n-th arrays of all, for each n."""
    return list(zip(*brought, strict=True))


def _described(operation: Operation, arrays: Sequence[Array]) -> str:
    """The same text for the same call."""
    call = f"table {operation.name!r}.{operation.kind}"
    if operation.kind == "allgather":
        return f"{call} of {len(arrays)} arrays"
    shapes = ", ".join(f"{array.dtype}{list(array.shape)}" for array in arrays)
    if operation.kind in _REDUCES:
        call += f"({operation.rule}, {operation.how})"
    root = f" at {operation.root}" if operation.root else ""
    return f"{call}{root} of {shapes}"

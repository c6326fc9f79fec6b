"""Turns at slots, what is done in one, and threads that run them beside others.

A round changes all blocks of a part at once, and whoever waits for it computes nothing
meanwhile: there is a core for every block. A queue that somebody is at is passed over,
so that two who run the same queues share them.

Waits: the threads of `SlotRunners`, for work; else for nothing. Any thread.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, final

import msgspec
import torch

from paceline.machine import num_cores
from paceline.messages.shared import Hyper
from paceline.params.bundle import Bundle
from paceline.params.rows import RowStep, RowTable, ValueTable
from paceline.params.shard import Table
from paceline.server.requests.contents import TableGradients

Action = Callable[[], object]


def nothing() -> None:
    """An action that does nothing."""


@final
class BesideTurn(NamedTuple):
    """A turn that may run beside others of its kind.

    ``attempt`` returns false if it must be alone after all (its rows have to be made), with
    nothing changed; ``alone`` is what runs then, by itself, before all that was placed
    behind it. One of the two has its effect.
    """

    attempt: Callable[[], bool]
    alone: Action


@final
class Joint(NamedTuple):
    """A turn alone that may be one with those right behind it.

    ``together`` runs the ``numbers`` of all of them, in order. They must be equal in
    ``kind``; they are ``most`` at a time.
    """

    numbers: Any  # what ``together`` takes
    together: Callable[[list[Any]], None]
    kind: object
    most: int


Turn = Action | BesideTurn | Joint


@final
class OneByOne:
    """Actions at the slots of one queue, as one turn."""

    def __init__(self, *actions: Action) -> None:
        self.actions = list(actions)

    def __call__(self) -> None:
        """Do all, in order."""
        for action in self.actions:
            action()


def one_turn(before: Turn, then: Turn) -> Turn:
    """Of two turns alone the one that does both; ``before`` may become it."""
    assert not isinstance(before, BesideTurn | Joint)
    assert not isinstance(then, BesideTurn | Joint)
    if not isinstance(before, OneByOne):
        return OneByOne(before, then)
    before.actions.append(then)
    return before


class TableStep(msgspec.Struct, frozen=True):
    """Gradients that change a table in some slots, which lie together; see `RowStore`."""

    table: Table  # in the first of the slots
    rows: TableGradients


def apply_rows(steps: Sequence[TableStep], how: RowStep) -> None:
    """Take one step of each table."""
    for one in steps:
        table, rows = one.table, one.rows
        if type(table) is ValueTable:  # by far quicker than to ask an abstract class
            table.apply(rows.ids, rows.gradients, replaces=rows.replaces)
        elif type(table) is RowTable:
            numbers = rows.slots, rows.ends, rows.ids, rows.gradients
            table.store.apply(*numbers, *how.of(rows.table))


def apply_compensated(
    bundle: Bundle,
    slot: int,
    gradient: torch.Tensor,
    then: torch.Tensor,
    factor: float,
    hyper: Hyper,
) -> None:
    """Take one step of a dense block on what its gradient would be by now.

    It is what the gradient's first-order change is on the way from the values ``then``,
    with the diagonal of its outer product for the Hessian (Zheng and others 2016, DC-ASGD,
    arXiv 1609.08326, equation 10, of which ``factor`` is lambda).
    """
    moved = bundle.blocks[slot].values - then
    bundle.apply({slot: gradient + factor * gradient * gradient * moved}, hyper)


# One for each core but the caller's; more read memory no faster, and are mostly idle.
NUM_RUNNERS: Final = min(3, num_cores() - 1)
# Row slots of a part share so many: those who come for more of them wait for a core anyway.
ROW_QUEUES: Final = NUM_RUNNERS + 1
# Waking a thread costs 0.05 ms: as long as a step of Adam over so much takes.
LEAST_BYTES: Final = 1 << 19

_CLOSED: Final = None

DENSE_QUEUE: Final = (
    "isolation=hogwild applies pushes of rows beside each other; its dense parameters are "
    "updated one push at a time"
)


@final
class SlotRunners:
    """A few threads; none before `start`."""

    def __init__(self, server: str, num_threads: int = NUM_RUNNERS) -> None:
        """Be idle."""
        self._work: queue.SimpleQueue[Action | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"{server}-runner-{n}", daemon=True)
            for n in range(num_threads)
        ]
        self._is_open = False

    def start(self) -> None:
        """Take work from now on."""
        self._is_open = True
        for thread in self._threads:
            thread.start()

    def run(self, run: Action, num_bytes: int) -> None:
        """Run what `Slots.line_up` has returned, together if so many bytes pay.

        When this returns, others may still be at some of the slots.
        """
        if self._is_open and num_bytes >= LEAST_BYTES:
            # Who has not taken the last one yet is too busy for this one.
            for _ in range(len(self._threads) - self._work.qsize()):
                self._work.put(run)
        run()

    def close(self, timeout_s: float) -> None:
        """End the threads."""
        if not self._is_open:
            return
        self._is_open = False
        for _ in self._threads:
            self._work.put(_CLOSED)
        for thread in self._threads:
            thread.join(timeout_s)

    def _serve(self) -> None:
        while (run := self._work.get()) is not _CLOSED:
            run()
            del run  # with the gradients that it holds: the next may come late


class PlacedTurn(msgspec.Struct, frozen=True):
    """A turn that has its place in a queue."""

    turn: Turn
    done: Action  # what follows in the same turn
    owner: int

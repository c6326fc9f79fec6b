"""Collective calls inside a loop: each is the step of a batch, and exchanges values.

A batch counts when its round is committed, with exactly the trainers whose values are in
the result. One that is lost before takes its own batch with it, which another one will
train; the others meet again with the values that they hold, and all get the same bits.

Waits: for the other trainers with work, servers and coordinator. The thread of the user's
loop calls.
"""

from collections.abc import Sequence
from typing import final

import numpy as np

from paceline.config import Combine, Sync
from paceline.errors import UsageError
from paceline.messages.peers import AskValues
from paceline.timing import Clock
from paceline.trainer.client import bare
from paceline.trainer.engine import Calls, TrainerEngine
from paceline.trainer.peers.collective import CollectiveCall, Operation
from paceline.trainer.peers.link import PeerLink
from paceline.trainer.peers.outbox import PeerOutbox
from paceline.trainer.peers.reduction import HOWS, RULES, Array
from paceline.trainer.peers.through_servers import Served

_DROPPED = (
    "{kind} dropped: {reason}. What it returned is of this trainer alone; before the next "
    "batch, what is tracked (session.track) is loaded as the others have it"
)
_MISSED = "its round counts, and the next one came before servers could say what it was"


def check_call(
    operation: Operation, arrays: Sequence[Array], combine: Combine, *, has_pushed: bool
) -> None:
    """Refuse a call that cannot be made; ``has_pushed``: to its table, in this batch.

    Raises:
        UsageError: an argument is none, and what is expected instead.
    """
    call = f"{operation.kind} of table {operation.name!r}"
    if operation.rule not in RULES:
        raise UsageError(
            f"{call}: expected a rule of {', '.join(RULES)}, got {operation.rule!r}: say "
            f"which, rule='add'"
        )
    if operation.how not in HOWS:
        raise UsageError(
            f"{call}: expected how of {', '.join(HOWS)}, got {operation.how!r}"
        )
    wrong = [array.dtype for array in arrays if array.dtype.kind not in "biuf"]
    if wrong or not arrays:
        found = wrong[0] if wrong else "none"
        raise UsageError(f"{call}: expected arrays of numbers, got {found}")
    if operation.how == "push+pull":
        _check_served(call, operation, arrays, combine)
    if has_pushed:
        raise UsageError(
            f"{call}: this batch has pushed to it already, and is one step: push in the "
            f"next one, or to another table"
        )


def _check_served(
    call: str, operation: Operation, arrays: Sequence[Array], combine: Combine
) -> None:
    """Servers reduce rows of the table, whole, by its rule."""
    shape, dtype = (combine.num_rows, *combine.shape), np.dtype(combine.dtype)
    if combine.num_rows is None:
        raise UsageError(
            f"{call}: push+pull goes through the rows of a dense table, and this one is "
            f"keyed: give it a number of rows"
        )
    found = [(array.shape, array.dtype) for array in arrays]
    if found != [(shape, dtype)]:
        told = ", ".join(f"{dtype} {shape}" for shape, dtype in found)
        raise UsageError(
            f"{call}: push+pull goes through the table's own rows: expected one array of "
            f"{dtype} {shape}, got {told}; make a table of that shape for it"
        )
    if operation.rule != combine.rule:
        raise UsageError(
            f"{call}: push+pull reduces by the table's own rule, {combine.rule}; got "
            f"{operation.rule!r}: make the table with combine={operation.rule!r}"
        )


@final
class Collectives:
    """Collective calls of one trainer."""

    def __init__(
        self, link: PeerLink, carrier: TrainerEngine, calls: Calls, clock: Clock
    ) -> None:
        self._link, self._carrier, self._calls = link, carrier, calls
        self._shelf = PeerOutbox(clock)
        link.answer(AskValues, self._shelf.received)
        link.look = self._shelf.sweep

    def run(
        self, part: int, operation: Operation, arrays: Sequence[Array]
    ) -> CollectiveCall:
        """Step a part over the batch in the user's hands, exchanging ``arrays``.

        Returns:
            The call, with its results: once the round is committed; or alone, if the round
            is gone, with a `StepWarning`.

        Raises:
            UsageError: outside of a loop; the batch is over for this part; its pace has no
                rounds of all; or other trainers have made another call.
            JobFailed: the job as a whole cannot go on.
        """
        self._check(part, operation)
        self._link.open()
        carrier, protocol = self._carrier, self._carrier.protocol
        stepping, table = protocol.stepping, carrier.tables[part]
        served = None
        if operation.how == "push+pull":
            served = Served(table.rows, arrays[0])
        me = self._link.trainer, self._link.address
        made = CollectiveCall(*me, operation, arrays, self._shelf, served)
        stepping.collectives[part] = made
        carrier.attach_values = made.attach
        made.write()
        try:
            table.load(carrier.plan(part))
            stepped = carrier.run(protocol.step(part), made.attach_rows)
        finally:
            stepping.collectives.pop(part, None)
            carrier.attach_values = bare
            protocol.asking.doors = {}
        table.clear()
        if stepped.verdict != "pushed":
            made.alone()
            text = _DROPPED.format(kind=operation.kind, reason=stepped.reason)
            carrier.warn_once(text)
        elif not made.committed(protocol.parts[part].round - 1):
            made.alone()
            carrier.warn_once(_DROPPED.format(kind=operation.kind, reason=_MISSED))
        return made

    def _check(self, part: int, operation: Operation) -> None:
        call, protocol = (
            f"{operation.kind} of table {operation.name!r}",
            self._carrier.protocol,
        )
        self._calls.check_open()
        shared = protocol.parts[part]
        if not shared.rules.is_sync:
            raise UsageError(
                f"{call}: its pace is {shared.spec.pace}, and values are exchanged in "
                f"rounds of all trainers with work: make it with "
                f"pace=paceline.Sync(reduce='sum')"
            )
        pace = shared.spec.pace
        if isinstance(pace, Sync) and pace.backup:
            raise UsageError(
                f"{call}: its pace is {pace}, whose rounds do without some trainers, and "
                f"values are exchanged by all: make it without backup"
            )
        if self._calls.open_call is None:
            raise UsageError(
                f"{call}: it is the step of a batch; call it inside a loop over "
                f"session.batches"
            )
        is_gone = protocol.must_join or shared.forgotten  # it may have joined again since
        if not is_gone and not shared.window.has_delivered():
            raise UsageError(
                f"{call}: the batch is over for this table: one call a batch; exchange "
                f"several arrays in one call, or by another table"
            )

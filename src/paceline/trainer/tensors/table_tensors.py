"""What a trainer has written to a table of the user's own: what its pushes carry.

Called by the thread of the user's loop.
"""

import logging
from typing import NamedTuple, final

from paceline.config import Pace
from paceline.messages.data import Push, Upload
from paceline.messages.shared import Message, PartPlan, PartSpec
from paceline.trainer.client import Payload
from paceline.trainer.encoding import all_finite
from paceline.trainer.model import WatchedModel
from paceline.trainer.rows import TableRows
from paceline.trainer.rows.routing import merge
from paceline.trainer.tensors.gradients import (
    NOT_FINITE,
    WHOLE_STEP,
    GatherChoice,
    Loaded,
    StepGradients,
)
from paceline.trainer.tensors.payload import Load, PartLoad

_log = logging.getLogger("paceline.trainer")


class TableManner(NamedTuple):
    """How the user writes to a table of his own.

    ``is_atomic``: what tables write in a batch is there together or not at all;
    ``must_step``: the model of which every batch has a step; empty: there is none.
    """

    is_atomic: bool = False
    must_step: str = ""


@final
class TableTensors:
    """The rows of one table; see `PartTensors`."""

    def __init__(self, rows: TableRows, pace: Pace, manner: TableManner) -> None:
        self.rows, self.pace, self.manner = rows, pace, manner
        self.tables = [rows]
        self.models: list[WatchedModel] = []
        self.gradients = StepGradients((), (), self.tables)
        self._ready = PartLoad()

    def attach(self, role: str, message: Message, plan: PartPlan) -> Payload:
        """See `PartTensors`."""
        if isinstance(message, Push):
            return self._ready.push(role, message)
        if isinstance(message, Upload):
            initial = [self.rows.initial(slot, plan) for slot in message.slots]
            return Payload(message, initial)
        return Payload(message)

    def load(
        self, plan: PartPlan, choice: GatherChoice = WHOLE_STEP, *, is_decided: bool = False
    ) -> Loaded:
        """See `PartTensors`: what was written is written once, and its own copy."""
        del is_decided
        kept = self.gradients.gather(choice).rows
        rows = tuple(merge(table, plan, recorded) for table, recorded in kept.items())
        is_finite = all_finite([row.gradient for row in rows if row.has_sums])
        self._ready.hold(Load(rows=rows if is_finite else ()))
        self.gradients.refused += not is_finite
        return Loaded(None if is_finite else NOT_FINITE, is_finite)

    def keep(self) -> None:
        """See `PartTensors`."""
        self.gradients.keep(with_dense=False)

    def clear(self, *, is_flying: bool = False) -> None:
        """See `PartTensors`."""
        if not is_flying:
            self._ready.clear()
        self.gradients.clear()

    def take_pace(self, spec: PartSpec, *, is_lost: bool = False) -> None:
        """See `PartTensors`."""
        del is_lost
        if self.pace != spec.pace:
            _log.info("part %d: %s instead of %s", spec.part, spec.pace, self.pace)
            self.pace = spec.pace

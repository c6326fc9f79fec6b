"""The numbers of one part at one trainer, be they a model's or a table's.

Called by the thread of the user's loop; landings write from whichever thread receives.
"""

from collections.abc import Sequence
from typing import Protocol

from paceline.config import Pace
from paceline.messages.shared import Message, PartPlan, PartSpec
from paceline.trainer.client import Payload
from paceline.trainer.model import WatchedModel
from paceline.trainer.rows import EmbeddingRows, TableRows
from paceline.trainer.tensors.gradients import (
    WHOLE_STEP,
    GatherChoice,
    Loaded,
    StepGradients,
)


class PartTensors(Protocol):
    """What is pushed of a part, and pulled.

    Attributes:
        gradients: those, or what was written, that wait for a push.
        models: those that were shared with it.
    """

    gradients: StepGradients
    models: list[WatchedModel]

    @property
    def pace(self) -> Pace:
        """By which it is pushed now."""

    @property
    def tables(self) -> Sequence[EmbeddingRows | TableRows]:
        """Its rows."""

    def attach(self, role: str, message: Message, plan: PartPlan) -> Payload:
        """The message with this part's numbers."""

    def load(
        self, plan: PartPlan, choice: GatherChoice = WHOLE_STEP, *, is_decided: bool = False
    ) -> Loaded:
        """Hold ready for a push what was kept, with the gradients of this step.

        Nothing is pushed if not all are finite, the codec cannot take them, or the norm is
        beyond its bound, unless it ``is_decided`` that the push has its effect.
        """

    def keep(self) -> None:
        """Add the gradients of this step to those that wait for the next push."""

    def clear(self, *, is_flying: bool = False) -> None:
        """The step is over, whatever became of it: nothing waits any more.

        ``is_flying``: the push is on its way, and may have to be repeated.
        """

    def take_pace(self, spec: PartSpec, *, is_lost: bool = False) -> None:
        """Push and pull as the pace of ``spec`` says; again, no change.

        Called when a trainer has shared a part or joined again: nothing is on its way then.
        ``is_lost``: what a codec has left out, and own steps, are of an abandoned future.
        """

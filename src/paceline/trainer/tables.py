"""A shared table as one trainer uses it: rows in, gradients kept until the next step.

Called by the user's thread; gradients come from autograd's.
"""

from collections.abc import Sequence
from typing import Protocol, final

import numpy as np
import torch

from paceline.messages import PartPlan, TableSpec
from paceline.params.rows.kernels import Int64s
from paceline.trainer.routing import Route, RowGradient, route_ids


class RowReader(Protocol):
    """Fetches rows from servers."""

    def plan(self, part: int) -> PartPlan:
        """The plan of a shared part."""

    def wait_rows(
        self, part: int, route: Route, values: torch.Tensor, *, create: bool
    ) -> None:
        """Fill ``values``, float32 ``(ids, dim)``, with the rows of a route."""


@final
class SharedTable:
    """A table that is bound to a session.

    Attributes:
        spec: what was shared.
        part: the part that its rows belong to.
    """

    def __init__(self, spec: TableSpec, part: int, reader: RowReader) -> None:
        """Bind."""
        self.spec = spec
        self.part = part
        self._reader = reader
        self._recorded: list[RowGradient] = []

    def __deepcopy__(self, memo: object) -> "SharedTable":
        """A copied module (an average of the model, say) reads the same table."""
        return self

    def lookup(self, ids: Int64s, *, record: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows of ids, as a leaf of autograd's graph.

        A backward through the leaf leaves its gradient for the next step; without one,
        nothing is left behind.

        Args:
            ids: int64 (n,).
            record: make unseen rows and keep gradients; otherwise only read.

        Returns:
            values: float32 ``(distinct ids, dim)``.
            inverse: int64 (n,); ``values[inverse]`` are the rows of ``ids``.
        """
        route, inverse = route_ids(self.spec.name, self._reader.plan(self.part), ids)
        values = torch.empty(len(route.ids), self.spec.dim)
        self._reader.wait_rows(self.part, route, values, create=record)
        if record:
            values.requires_grad_()
            values.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]  # torch's door
                lambda leaf: self._record(route, leaf)
            )
        return values, torch.from_numpy(np.ascontiguousarray(inverse))

    def take(self) -> Sequence[RowGradient]:
        """The gradients recorded since the last call."""
        recorded, self._recorded = self._recorded, []
        return recorded

    def _record(self, route: Route, leaf: torch.Tensor) -> None:
        gradient, leaf.grad = leaf.grad, None  # a second backward brings only its own
        if gradient is not None and len(route.ids):
            self._recorded.append(RowGradient(route, gradient.contiguous()))

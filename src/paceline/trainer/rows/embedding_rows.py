"""A shared table as one trainer uses it: rows in, gradients kept until the next step.

A gradient that waits for its step is shown: as the ``grad`` of a tensor in a parameter
group, so that whoever goes through an optimizer's gradients (`GradScaler.unscale_`, above
all) finds those of rows as well, and changes or drops what the step will push.

Called by the user's thread; gradients come from autograd's.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol, final

import msgspec
import numpy as np
import torch

from paceline.messages.shared import PartPlan, TableSpec
from paceline.params.rows import Int64s
from paceline.trainer.rows.prefetch import IdsPlace, Prefetcher, find_ids, ids_at
from paceline.trainer.rows.routing import Route, Router, RowGradient


class RowReader(Protocol):
    """Fetches rows from servers."""

    def plan(self, part: int) -> PartPlan:
        """The plan of a shared part."""

    def wait_rows(
        self, part: int, route: Route, values: torch.Tensor, *, create: bool
    ) -> None:
        """Fill ``values``, float32 ``(ids, dim)``, with the rows of a route."""

    @property
    def outlook(self) -> Prefetcher:
        """What is known of the batches around this moment."""


Record = Callable[[torch.Tensor], None]
"""Leaves a gradient of rows, float32 (distinct ids, dim), for the next step.

It is a tensor of its own, contiguous and of no graph.
"""


class Found(NamedTuple):
    """Rows of ids: ``rows[places]`` are theirs."""

    rows: torch.Tensor  # float32 (distinct ids, dim)
    places: torch.Tensor  # int64, of the ids' shape; those of a table with padding (n,)
    record: Record | None  # None: they are only read


class Expected(msgspec.Struct, frozen=True):
    """Rows that are asked for before they are looked up."""

    ids: bytes  # all of the batch's, as they were: a script may change its own
    route: Route
    inverse: Int64s
    values: torch.Tensor  # float32 (distinct ids, dim), where they land


class _Habit(NamedTuple):
    """How ids were looked up last."""

    place: IdsPlace
    padding: int | None


class _Recorded(NamedTuple):
    route: Route
    shown: torch.Tensor  # its `grad` is the gradient, None if somebody dropped it


@final
class EmbeddingRows:
    """A table that is bound to a session.

    ``said``: as the script described it, where its job has begun with something else.
    """

    def __init__(
        self, spec: TableSpec, part: int, reader: RowReader, said: TableSpec | None = None
    ) -> None:
        self.spec, self.said = spec, spec if said is None else said
        self.part = part  # the part that its rows belong to
        self._reader = reader
        self._recorded: list[_Recorded] = []
        self._router: Router | None = None  # for the plan of the last lookup
        self._habit: _Habit | None = None
        self._expected: list[Expected] = []
        self._shows: list[list[torch.Tensor]] = []  # where gradients that wait appear

    def __deepcopy__(self, memo: object) -> "EmbeddingRows":
        """A copied module (an average of the model, say) reads the same table."""
        return self

    def show_in(self, params: list[torch.Tensor]) -> None:
        """Let gradients that wait for a step appear in a parameter group's ``params``."""
        if not any(params is shown for shown in self._shows):
            self._shows.append(params)

    def lookup(self, ids: torch.Tensor, *, padding: int | None, record: bool) -> Found:
        """The rows of ids, of any shape and device.

        With ``record`` unseen rows are made, and gradients of them can be left for the next
        step; otherwise they are only read.
        """
        flat = _flat(ids, padding)
        found = self._take_expected(flat) if record else None
        if found is None:
            found = self._prepare(flat)
            self._reader.wait_rows(self.part, found.route, found.values, create=record)
            if record:
                place = find_ids(self._reader.outlook.current, ids)
                self._habit = None if place is None else _Habit(place, padding)
        places = torch.from_numpy(found.inverse)
        if padding is None:
            places = places.view(ids.shape)
        keep = partial(self._record, found.route) if record else None
        return Found(found.values, places, keep)

    def foresee(self, ahead: int) -> Expected | None:
        """What the batch behind ``ahead`` others will look up, if it is like the last one.

        Nobody is asked for it yet.
        """
        coming, habit = self._reader.outlook.ahead(ahead), self._habit
        ids = None if habit is None or coming is None else ids_at(coming, habit.place)
        return None if ids is None else self._prepare(_flat(ids, habit and habit.padding))

    def expect(self, expected: Expected, *, most: int) -> None:
        """These rows have come as they will be looked up; ``most`` that came last stay."""
        self._expected = [*self._expected, expected][-most:]

    def expect_nothing(self) -> None:
        """Whatever has come is not as it would be looked up now."""
        self._expected = []

    def _take_expected(self, flat: Int64s) -> Expected | None:
        ids = flat.tobytes() if self._expected else b""
        for number, expected in enumerate(self._expected):
            if expected.ids == ids:
                del self._expected[: number + 1]
                return expected
        return None

    def _prepare(self, flat: Int64s) -> Expected:
        plan = self._reader.plan(self.part)
        if self._router is None or self._router.plan is not plan:
            self._router = Router(self.spec.name, plan)
        route, inverse = self._router.route(flat)
        values = torch.empty(len(route.ids), self.spec.dim)
        return Expected(flat.tobytes(), route, inverse, values)

    def take(self) -> Sequence[RowGradient]:
        """The gradients recorded since the last call; they are not shown any more."""
        if not self._recorded:
            return ()
        recorded, self._recorded = self._recorded, []
        gone = {id(entry.shown) for entry in recorded}
        for params in self._shows:
            params[:] = [tensor for tensor in params if id(tensor) not in gone]
        return [
            RowGradient(route, shown.grad)
            for route, shown in recorded
            if shown.grad is not None
        ]

    def drop(self) -> None:
        """Forget the gradients recorded since."""
        self.take()

    def waiting(self) -> Sequence[torch.Tensor]:
        """The gradients that `take` would return."""
        return [
            entry.shown.grad for entry in self._recorded if entry.shown.grad is not None
        ]

    def _record(self, route: Route, shown: torch.Tensor) -> None:
        if len(route.ids):
            # The same memory. A view would hold what holds it, and never be freed.
            shown.grad = shown.detach()
            self._recorded.append(_Recorded(route, shown))
            for params in self._shows:
                params.append(shown)


def _flat(ids: torch.Tensor, padding: int | None) -> Int64s:
    here = ids if ids.is_cpu else ids.detach().to("cpu")
    flat: Int64s = np.ascontiguousarray(here.numpy(), np.int64).reshape(-1)
    return flat if padding is None else flat[flat != padding]

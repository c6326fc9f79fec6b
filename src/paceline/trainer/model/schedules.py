"""Learning rates that follow what the whole job has trained.

A torch scheduler counts the steps of its own trainer. With four trainers that is a quarter
of the job's, in `paceline.Async` an uneven share of them, and a joiner has counted none.
Here a rate is a function of the job's acknowledged records: the same on every trainer,
whatever the pace and however many there are, and as far back as the job goes back.

The thread of the user's loop calls.
"""

import math
from collections.abc import Callable
from typing import final

import torch

from paceline.errors import UsageError

Factor = Callable[[int], float]

_TRACKED = (
    "track: {name} is a torch {kind}, and the job has {trainers} trainers: if it is "
    "stepped with each batch, it counts the steps of its own trainer alone, so that by "
    "records of the job it moves {trainers} times too slowly; once an epoch is right, and "
    "session.schedule(optimizer, factor) follows the records of the whole job, for any "
    "number of trainers, and is not tracked"
)


@final
class Schedules:
    """The schedules of one session."""

    def __init__(self) -> None:
        self.all: list[_Schedule] = []

    def add(self, optimizer: torch.optim.Optimizer, factor: Factor) -> None:
        """Let the rates of an optimizer's groups follow a factor from here on.

        Raises:
            UsageError: a schedule has this optimizer already; or the factor of no records
                is no number.
        """
        if any(one.groups is optimizer.param_groups for one in self.all):
            raise UsageError("schedule: this optimizer follows another one already")
        made = _Schedule(optimizer, factor)
        made.set_rates(0)
        self.all.append(made)

    def drop(self, optimizer: torch.optim.Optimizer) -> None:
        """The rates of an optimizer's groups follow nothing any more."""
        # It sets the rates of this one, or of the one that this one wraps.
        self.all = [one for one in self.all if one.groups is not optimizer.param_groups]

    def set_rates(self, records: int) -> None:
        """Before a step: so many records of the job are acknowledged.

        Raises:
            UsageError: a factor is no finite number from 0.
        """
        for one in self.all:
            one.set_rates(records)


def why_not_tracked(name: str, tracked: object, trainers: int) -> str | None:
    """What goes wrong with a tracked object that counts steps, if anything does."""
    if trainers == 1 or not isinstance(tracked, torch.optim.lr_scheduler.LRScheduler):
        return None
    kind = type(tracked).__name__
    return _TRACKED.format(name=name, kind=kind, trainers=trainers)


@final
class _Schedule:
    def __init__(self, optimizer: torch.optim.Optimizer, factor: Factor) -> None:
        self.groups, self._factor = optimizer.param_groups, factor
        self._rates = [group["lr"] for group in self.groups]
        self._known: tuple[int, float] | None = None  # records, and their factor

    def set_rates(self, records: int) -> None:
        """See `Schedules.set_rates`."""
        if self._known is None or self._known[0] != records:
            factor: object = self._factor(records)
            if not isinstance(factor, int | float) or not 0 <= factor < math.inf:
                what = f"a factor >= 0 for {records} records"
                raise UsageError(f"schedule: expected {what}, got {factor!r}")
            self._known = records, float(factor)
        for group, rate in zip(self.groups, self._rates, strict=True):
            group["lr"] = rate * self._known[1]

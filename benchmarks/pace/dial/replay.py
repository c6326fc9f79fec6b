"""Gradients and updates of a schedule, for many learning rates at once.

A direct push is a step of the servers' SGD with the gradient of its batches, computed on
the values that its trainer had; a round is one step with the weighted mean. Where the
trainer steps by itself, a round is the outer step on the weighted mean of how far each has
come. Formulas are those of `torch.optim.SGD`; what a guard makes of a rate, the pace says.

Pure.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from benchmarks.pace.dial.problem import Stream, Values, initial, loss
from benchmarks.pace.dial.schedule import Contribution, Schedule, Update
from paceline.config import Pace
from paceline.pace.guards import rate_of
from paceline.pace.policy import outer_step, steps_locally


class Rule(NamedTuple):
    """How gradients become steps.

    Args:
        rates: learning rates, one network each.
        momentum: of SGD; where trainers step by themselves, of theirs.
    """

    rates: tuple[float, ...]
    momentum: float = 0.9


class Look(NamedTuple):
    """The held-out losses of all rates, ``(rates,)``, at a moment."""

    at_s: float
    updates: int
    batches: int
    losses: NDArray[np.float32]


def replay(
    schedule: Schedule, pace: Pace, rule: Rule, stream: Stream, seed: int, every: int
) -> Iterator[Look]:
    """Let numbers follow a schedule; a look at the loss after every so many batches.

    Args:
        schedule: who computed what on which values.
        pace: of the schedule.
        rule: how gradients become steps.
        stream: the batches.
        seed: of the values to begin with.
        every: batches between two looks.
    """
    rates = np.array(rule.rates, np.float32)[:, None]
    begin = np.repeat(initial(seed), len(rule.rates), axis=0)
    history = _History(schedule.updates, begin)
    inner = _Inner(rates, rule.momentum, stream)
    is_local = steps_locally(pace)
    outer = _Outer(begin, pace if is_local else None, rates, rule.momentum)
    values, batches, looked = begin, 0, 0
    for version, update in enumerate(schedule.updates):
        with np.errstate(over="ignore", invalid="ignore"):
            total = np.zeros_like(values)
            for one in update.contributions:
                found = inner.delta(one, history) if is_local else inner.sum(one, history)
                total += found * np.float32(one.weight)
            age = version - update.oldest if update.oldest is not None else 0
            values = outer.step(values, total, rate_of(pace, age=age, version=version))
            history.add(version + 1, values)
            batches += update.batches
            if batches - looked >= every:
                looked = batches
                yield Look(update.at_s, version + 1, batches, loss(values))


@final
class _History:
    """Values of past versions, while a batch to come was computed on them."""

    def __init__(self, updates: Sequence[Update], begin: Values) -> None:
        self._last = {  # {version: the update that needs it last}
            computed.base: number
            for number, update in enumerate(updates)
            for one in update.contributions
            for computed in one.computed
        }
        self._values = {0: begin}
        self._leaving: dict[int, list[int]] = {}  # {update: versions of no use after it}
        for version, number in self._last.items():
            self._leaving.setdefault(number, []).append(version)

    def __getitem__(self, version: int) -> Values:
        return self._values[version]

    def add(self, version: int, values: Values) -> None:
        for gone in self._leaving.get(version - 1, ()):
            del self._values[gone]
        if version in self._last:
            self._values[version] = values


@final
class _Inner:
    """What a trainer makes of its batches."""

    def __init__(self, rates: Values, momentum: float, stream: Stream) -> None:
        self._rates, self._momentum, self._stream = rates, momentum, stream
        self._buffers: dict[int, Values] = {}  # {trainer: momentum of its own optimizer}

    def sum(self, one: Contribution, history: _History) -> Values:
        """The sum of its batches' gradients."""
        found = [self._stream.gradient(history[c.base], c.batch) for c in one.computed]
        return sum(found[1:], start=found[0]) if found else np.zeros_like(self._rates)

    def delta(self, one: Contribution, history: _History) -> Values:
        """How far its own steps lead back: a gradient for the outer step."""
        if not one.computed:
            return np.zeros_like(self._rates)
        begin = values = history[one.computed[0].base]
        for batch, _ in one.computed:
            gradient = self._stream.gradient(values, batch)
            buffer = self._buffers.get(one.trainer)
            buffer = gradient if buffer is None else self._momentum * buffer + gradient
            self._buffers[one.trainer] = buffer
            values = values - self._rates * buffer
        return begin - values


@final
class _Outer:
    """The servers' SGD."""

    def __init__(
        self, begin: Values, local: Pace | None, rates: Values, momentum: float
    ) -> None:
        self._buffer = np.zeros_like(begin)
        if local is None:
            self._rates, self._momentum, self._is_nesterov = rates, momentum, False
        else:
            hyper: Any = outer_step(local)  # numbers all
            self._rates = np.asarray(hyper["lr"], begin.dtype)
            self._momentum = float(hyper["momentum"])
            self._is_nesterov = bool(hyper["nesterov"])

    def step(self, values: Values, gradient: Values, share: float) -> Values:
        momentum = np.float32(self._momentum)
        self._buffer = momentum * self._buffer + gradient
        direction = (
            gradient + momentum * self._buffer if self._is_nesterov else self._buffer
        )
        return values - np.float32(share) * self._rates * direction

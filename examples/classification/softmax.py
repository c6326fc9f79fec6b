"""Multinomial logistic regression by full gradients, and the plain loop that is the oracle.

One iteration is a sum: of every record's gradient, its loss, and one. What follows from a
sum whoever made it is in `Descent`: Nesterov's accelerated gradient, begun again whenever
it would go uphill, with steps of one over the gradient's Lipschitz constant.

Pure. Nesterov (1983); O'Donoghue and Candes (2015) for beginning again; Boehning (1992)
for the bound 1/2 on the curvature of the softmax.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


class Problem(NamedTuple):
    """What is minimized: mean loss + ridge / 2 * the weights' squares.

    Args:
        num_records: of the mean.
        num_features: with the one behind them.
        num_classes: at least 2.
        ridge: how strongly weights are pulled to zero.
        steepness: bound on how fast the gradient of the mean loss changes.
    """

    num_records: int
    num_features: int
    num_classes: int
    ridge: float
    steepness: float

    @property
    def num_statistics(self) -> int:
        """Numbers of an iteration's sum: the gradient, the loss, the count."""
        return self.num_features * self.num_classes + 2


def pose(features: Floats, labels: Labels, ridge: float) -> Problem:
    """The problem of these records; its step follows from the features alone."""
    steepest = float(np.linalg.eigvalsh(features.T @ features / len(features))[-1])
    classes = int(labels.max()) + 1
    return Problem(*features.shape, classes, ridge, steepest / 2)


def differentiate(features: Floats, labels: Labels, weights: Floats) -> Floats:
    """What these records add to an iteration's sum ``(features * classes + 2,)``.

    Args:
        features: (n, d) float64.
        labels: (n,) int64.
        weights: (d, classes) float64.
    """
    scores = features @ weights
    scores -= scores.max(1, keepdims=True)
    shares = np.exp(scores)
    totals = shares.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float((np.log(totals[:, 0]) - scores[rows, labels]).sum())
    shares /= totals
    shares[rows, labels] -= 1
    return np.array([*(features.T @ shares).ravel(), loss, len(labels)])


def accuracy(features: Floats, labels: Labels, weights: Floats) -> float:
    """The share of records whose class has the highest score."""
    return float(((features @ weights).argmax(1) == labels).mean())


class Descent:
    """From one sum of gradients to the next point to take one at.

    Attributes:
        point: (d, classes), where the next gradient is wanted.
        weights: (d, classes), the best so far.
        losses: one an iteration, with the ridge, at its point.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.begin_again()

    def begin_again(self) -> None:
        """From zero weights."""
        shape = self._problem.num_features, self._problem.num_classes
        self.point, self.weights = np.zeros(shape), np.zeros(shape)
        self.losses: list[float] = []
        self._momentum = 1.0
        self._sums = np.zeros(self._problem.num_statistics)

    @property
    def num_iterations(self) -> int:
        """How many are over."""
        return len(self.losses)

    def add(self, statistics: Floats) -> None:
        """Of some records, at `point`; with the last of an iteration it is over."""
        self._sums = self._sums + statistics
        if self._sums[-1] == self._problem.num_records:
            self.advance(self._sums)
            self._sums = np.zeros_like(self._sums)

    def advance(self, statistics: Floats) -> None:
        """One iteration: the sum of all records, at `point`."""
        count, ridge = statistics[-1], self._problem.ridge
        slope = statistics[:-2].reshape(self.point.shape) / count + ridge * self.point
        penalty = ridge / 2 * float(np.square(self.point).sum())
        self.losses.append(float(statistics[-2] / count) + penalty)
        after = self.point - slope / (self._problem.steepness + ridge)
        step = after - self.weights
        if float(((self.point - after) * step).sum()) > 0:  # uphill
            self._momentum, self.point = 1.0, after
        else:
            grown = (1 + np.sqrt(1 + 4 * self._momentum**2)) / 2
            self.point = after + (self._momentum - 1) / grown * step
            self._momentum = float(grown)
        self.weights = after

    def state_dict(self) -> dict[str, object]:
        """For whoever joins, and for checkpoints."""
        return {
            "point": self.point,
            "weights": self.weights,
            "losses": list(self.losses),
            "momentum": self._momentum,
            "sums": self._sums,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where another trainer is."""
        self.point, self.weights = np.array(state["point"]), np.array(state["weights"])
        self.losses, self._momentum = list(state["losses"]), float(state["momentum"])
        self._sums = np.array(state["sums"])


def plain(features: Floats, labels: Labels, ridge: float, iterations: int) -> Descent:
    """The loop in one process: what every model must come to."""
    descent = Descent(pose(features, labels, ridge))
    for _ in range(iterations):
        descent.advance(differentiate(features, labels, descent.point))
    return descent

"""How good the rows are by now: the error on what was held out, once an epoch.

One trainer of the job looks, the others go on. It looks between two of its own batches.
"""

import time
from pathlib import Path

import numpy as np
from plain import test_rmse
from ratings import Split
from work import Running

import paceline


class Look:
    """What one trainer sees of the ratings that were held out: once an epoch.

    Attributes:
        seen: (seconds, epochs that are over, RMSE), in order.
    """

    def __init__(
        self, session: paceline.Session, split: Split, running: Running, first: int = 1
    ) -> None:
        """Begin to count seconds; look only when ``first`` epochs are over."""
        self._session, self._split, self._running = session, split, running
        self._first = first
        self._is_looking = session.once("look")
        self._began_s, self._epochs = time.monotonic(), 0
        self.seen: list[tuple[float, int, float]] = []

    def until_the_end(self, target: float = 0.0) -> None:
        """Run all steps, and look whenever an epoch is over.

        Args:
            target: an error that is good enough: the job stops where it is seen.
        """
        is_reached = False
        for _ in self._running.steps:
            epochs = self._session.epoch
            is_due = epochs > self._epochs and epochs >= self._first
            if self._is_looking and is_due and self._now(epochs) <= target:
                self._session.stop("the error is low enough")
                is_reached = True
        if self._is_looking and not is_reached:  # else the last epoch is no whole one
            self._now(1 + self._session.epoch)

    def _now(self, epochs: int) -> float:
        self._epochs, now_s = epochs, time.monotonic()
        error = test_rmse(self._split, *self._running.rows())
        self.seen.append((now_s - self._began_s, epochs, error))
        self._session.log(rmse=error)
        return error


def draw(look: Look, title: str, floor: float | None, picture: Path) -> None:
    """RMSE over seconds, as a PNG; needs matplotlib."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  (an extra: only drawing needs it)

    seconds, _, errors = np.array(look.seen).T
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(seconds, errors, marker="o", markersize=3, label="held out")
    if floor is not None:
        axes.axhline(floor, color="gray", linestyle=":", label="noise")
    axes.set(title=title, xlabel="seconds", ylabel="RMSE")
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=140)
    plt.close(figure)

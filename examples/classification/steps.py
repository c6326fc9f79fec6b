"""Learn which flights are late, and look once an epoch at those that were held out.

One trainer of the job looks, between two of its own batches; the others go on.
"""

import argparse
import time

import curves
import delays
import hashed
import numpy as np

import paceline


class Look:
    """What one trainer sees of the flights that were held out.

    Attributes:
        seen: {seconds since the first step: area under the ROC curve}.
    """

    def __init__(
        self, session: paceline.Session, test: delays.Delays, running: hashed.Running
    ) -> None:
        self._session, self._test, self._running = session, test, running
        self._is_looking = session.once("look")
        self._began_s = time.monotonic()
        self.seen: dict[float, float] = {}

    def until_the_end(self) -> None:
        """Run all steps, and look whenever an epoch is over."""
        epoch = 0
        for loss in self._running.losses:
            self._session.log(loss=loss)
            if self._is_looking and self._session.epoch > epoch:
                epoch = self._session.epoch
                self._now()
        if self._is_looking:
            self._now()

    def _now(self) -> None:
        found = hashed.scores(self._test.ids, self._running.rows())
        area = hashed.auc(self._test.labels, found)
        self.seen[time.monotonic() - self._began_s] = area
        self._session.log(auc=area, log_loss=hashed.log_loss(self._test.labels, found))


def train(flags: argparse.Namespace) -> None:
    """Train as the command line of `logistic` says, and look."""
    learned, test = delays.load(flags.data)
    work = hashed.Work(learned, flags.batch_size, flags.epochs, flags.rate, flags.seed)
    session = paceline.connect()
    running = hashed.MODELS[flags.model](session, work)
    look = Look(session, test, running)
    look.until_the_end()
    if look.seen:
        if flags.out is not None:
            np.savez(flags.out, rows=running.rows())
        if flags.picture is not None:
            names = "seconds", "AUC on flights held out"
            curves.draw(flags.picture, look.seen, names, f"{flags.data}, {flags.model}")

"""Logistic regression of hashed ids: a weight for each, a step along each batch.

Two numbers an id: its weight w, and the sum G of its squared gradients (Adagrad)::

    g = mean over the batch of (share - label) where the id is in the record
    w -= rate * g / sqrt(G + g^2)
    G += g^2

Both change by adding, so trainers can do it at once, and `--model` says how::

    no-sync      rows of the batch's ids are pulled, what changes is pushed; nobody waits
    push-pull    the same in rounds: the changes of all trainers are added as one
    allreduce    gradients of all trainers' batches are added up between trainers; each
                 keeps all rows itself, and takes the same step
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from delays import NUM_FIELDS, NUM_IDS, Delays, Floats
from numpy.typing import NDArray

import paceline

Int64s = NDArray[np.int64]
Rows = NDArray[np.float32]  # (ids, 2): weight, sum of squared gradients
EPSILON = 1e-12  # where no gradient ever was


class Work(NamedTuple):
    """What is to be done.

    Args:
        train: the records.
        batch_size: records between two steps of a trainer.
        epochs: runs over the records.
        rate: of a step.
        seed: of the order of records.
    """

    train: Delays
    batch_size: int = 4096
    epochs: int = 2
    rate: float = 0.05
    seed: int = 0


class Running(NamedTuple):
    """An algorithm at work.

    Args:
        losses: to be iterated over: a step each, the mean loss of its batch before it.
        rows: all of them, as they are now.
    """

    losses: Iterator[float]
    rows: Callable[[], Rows]


@numba.njit(cache=True)
def differentiate(places: Int64s, labels: Floats, weights: Floats, slopes: Floats) -> float:
    """Add the records' gradients to ``slopes``; returns the sum of their losses.

    Args:
        places: (n, fields), the place in ``weights`` of each id.
        labels: (n,).
        weights: (m,).
        slopes: (m,), changed in place.
    """
    loss = 0.0
    for record in range(len(labels)):
        score = 0.0
        for field in range(places.shape[1]):
            score += weights[places[record, field]]
        label = labels[record]
        # log(1 + e^score) - label * score, which does not overflow so
        loss += max(score, 0.0) + np.log1p(np.exp(-abs(score))) - label * score
        error = np.float32(1 / (1 + np.exp(-score)) - label)
        for field in range(places.shape[1]):
            slopes[places[record, field]] += error
    return loss


def change(rows: Rows, slopes: Floats, rate: float) -> Rows:
    """What a step adds to rows ``(m, 2)``, given mean gradients ``(m,)``."""
    squares = np.square(slopes)
    lengths = np.sqrt(rows[:, 1] + squares + np.float32(EPSILON))
    return np.stack([np.float32(-rate) * slopes / lengths, squares], 1)


def scores(ids: NDArray[np.int32], rows: Rows) -> Floats:
    """The log-odds of each record to be late."""
    return rows[:, 0][ids].sum(1)


def pulled_and_pushed(
    session: paceline.Session, work: Work, pace: paceline.Async | paceline.Sync
) -> Running:
    """Rows of a batch's ids on their way from servers, changes on their way back."""
    table = session.table("weights", (NUM_IDS, 2), pace=pace)

    def steps() -> Iterator[float]:
        for ids, labels in batches(session, work):
            names, places = np.unique(ids, return_inverse=True)
            rows = table.pull(names)
            slopes = np.zeros(len(names), np.float32)
            places = places.reshape(-1, NUM_FIELDS)
            loss = differentiate(places, labels, rows[:, 0].copy(), slopes) / len(labels)
            table.push(names, change(rows, slopes / np.float32(len(labels)), work.rate))
            yield loss

    return Running(steps(), table.pull)


def no_sync(session: paceline.Session, work: Work) -> Running:
    """Model D: nobody waits."""
    return pulled_and_pushed(session, work, paceline.Async())


def push_pull(session: paceline.Session, work: Work) -> Running:
    """Model C: in rounds."""
    return pulled_and_pushed(session, work, paceline.Sync(reduce="sum"))


class Kept:
    """All rows, on every trainer the same."""

    def __init__(self) -> None:
        self.rows = np.zeros((NUM_IDS, 2), np.float32)

    def state_dict(self) -> dict[str, object]:
        """For whoever joins, and for checkpoints."""
        return {"rows": self.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where another trainer is."""
        self.rows = np.array(state["rows"])


def allreduce(session: paceline.Session, work: Work) -> Running:
    """Model C, trainer to trainer."""
    table = session.table("sums", (1,), pace=paceline.Sync(reduce="sum"))
    kept = Kept()
    session.track(weights=kept)

    def steps() -> Iterator[float]:
        for ids, labels in batches(session, work):
            # Behind the slopes: how many records they are of.
            sums = np.zeros(NUM_IDS + 1, np.float32)
            weights = kept.rows[:, 0].copy()
            loss = differentiate(ids.astype(np.int64), labels, weights, sums[:-1])
            sums[-1] = len(labels)
            total = table.allreduce(sums)
            kept.rows += change(kept.rows, total[:-1] / total[-1], work.rate)
            yield loss / len(labels)

    return Running(steps(), lambda: kept.rows)


MODELS: dict[str, Callable[[paceline.Session, Work], Running]] = {
    "allreduce": allreduce,
    "no-sync": no_sync,
    "push-pull": push_pull,
}


def batches(
    session: paceline.Session, work: Work
) -> Iterator[tuple[NDArray[np.int32], Floats]]:
    """This trainer's share of the records."""
    data = tuple(torch.from_numpy(column) for column in work.train)
    for ids, labels in session.batches(
        data, work.batch_size, epochs=work.epochs, seed=work.seed
    ):
        yield ids.numpy(), labels.numpy()


def log_loss(labels: Floats, found: Floats) -> float:
    """The mean loss of scores."""
    return float((np.logaddexp(0, found) - labels * found).mean())


def auc(labels: Floats, found: Floats) -> float:
    """Area under the ROC curve: how often a late flight scores above a punctual one."""
    _, place, count = np.unique(found, return_inverse=True, return_counts=True)
    # Equal scores share the mean of their places in the order.
    mean_place = np.cumsum(count) - (count - 1) / 2
    is_late = labels > 0
    late, punctual = int(is_late.sum()), int((~is_late).sum())
    total = float(mean_place[place[is_late]].sum())
    return (total - late * (late + 1) / 2) / (late * punctual)

"""Which batches the ranks of a trainer work on next, and what each contributes.

::

    batches of the lease   4 5 6 | 7 8 9 | 10        a task of 11, three ranks
    rank                   0 1 2   0 1 2    0        ranks 1 and 2 wait in the last step

Rank i has the i-th of the next batches; all of them are in one window. Whoever has none
contributes nothing, and waits.

Pure.
"""

from collections.abc import Sequence

from paceline.config import Pace
from paceline.pace.policy import weigh
from paceline.trainer.acts import Act
from paceline.trainer.protocol import TrainerProtocol
from paceline.trainer.verdicts import Batch, Flush, Leaving, Over

Dealt = tuple[Batch, ...] | Flush | Over | Leaving


def deal(protocol: TrainerProtocol, size: int) -> Act[Dealt]:
    """The next batches of a trainer of ``size`` ranks, at least one, or what else to do.

    The first may have to be waited for; the others are those at hand behind it, up to the
    end of the lease, or an edge.
    """
    first = yield from protocol.next_batch()
    if not isinstance(first, Batch):
        return first
    batches = [first]
    while len(batches) < size and protocol.peek() is not None:
        found = yield from protocol.next_batch()
        if not isinstance(found, Batch):
            break  # an edge: it is said again when the window is closed
        batches.append(found)
    return tuple(batches)


def weights(pace: Pace, records: Sequence[int]) -> tuple[float, ...]:
    """The weight of each rank's gradients in those of the trainer, by its records.

    Those of a trainer of its own, in a round of all ranks: ``n_i / N``, or 1 where the
    pace sums. With the trainer's own weight ``N / (all records of the round)`` it comes to
    what it would be if every rank were a trainer.
    """
    total = max(1, sum(records))
    return tuple(weigh(pace, count, total) for count in records)

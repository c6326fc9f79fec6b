"""Values that travel between trainers: the same bits everywhere, each batch once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import paceline

Run = Callable[..., list[Any]]
NUMBERS = torch.arange(96) % 7
ROUNDS = paceline.Sync(reduce="sum")


class Seen:
    """What a script keeps of the results, from round to round."""

    def __init__(self) -> None:
        self.counts = np.zeros(7, np.int64)
        self.sums: list[float] = []

    def state_dict(self) -> dict[str, Any]:
        return {"counts": self.counts.copy(), "sums": list(self.sums)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.counts, self.sums = np.array(state["counts"]), list(state["sums"])


def loop(session: paceline.Session, how: str, width: int = 7) -> Seen:
    """Count the numbers, and add up their roots; keep every result."""
    table = session.table("numbers", (7,), "int64", pace=ROUNDS)
    seen = Seen()
    session.track(seen=seen)
    for batch in session.batches(NUMBERS, 4, epochs=2, seed=3, task_size=8):
        counts = np.bincount(batch.numpy(), minlength=width)
        roots = np.sqrt(np.arange(width) + batch.numpy().sum() / 3)
        total, sums = table.allreduce(counts, roots, how=how)
        seen.counts = seen.counts + total[:7]
        seen.sums.append(float(sums.sum()))
    return seen


@pytest.mark.parametrize("how", ["allreduce", "regroup+allgather", "auto"])
def test_every_record_counts_once_and_all_have_the_same_bits(run: Run, how: str) -> None:
    found = run(lambda session: loop(session, how))
    for seen in found:  # also of one that had no batch in the last rounds
        np.testing.assert_array_equal(seen.counts, 2 * np.bincount(NUMBERS.numpy()))
        assert seen.sums == found[0].sums

"""Who works on which batch, and with which weight."""

from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import Async, Pace, Sync
from paceline.ids import TaskKey
from paceline.pace.policy import weigh
from paceline.trainer.acts import Act
from paceline.trainer.group.offers import deal, weights
from paceline.trainer.verdicts import Batch, Flush, Leaving, Over

T = TypeVar("T")
KEY = TaskKey(0, 0, 0)


class Lease:
    """Batches of one task that are at hand, and what is said behind an edge."""

    def __init__(self, batches: int, edge: int | None = None) -> None:
        self.left = [Batch(KEY, number) for number in range(batches)]
        self.edge = edge
        self.asked = 0

    def next_batch(self) -> Act[Batch | Flush | Over | Leaving]:
        yield from ()
        if not self.left:
            self.asked += 1
            return Over(None)
        if self.edge is not None and self.left[0].batch == self.edge + 1:
            return Flush()
        return self.left.pop(0)

    def peek(self, ahead: int = 0) -> Batch | None:
        return self.left[ahead] if ahead < len(self.left) else None


def run(act: Act[T]) -> T:
    try:
        next(act)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it asked somebody")


def numbers(dealt: object) -> list[int]:
    assert isinstance(dealt, tuple)
    return [batch.batch for batch in dealt]


def test_each_has_one_of_the_next_batches_and_the_last_ones_may_have_none() -> None:
    lease = Lease(5)
    assert numbers(run(deal(lease, 2))) == [0, 1]
    assert numbers(run(deal(lease, 2))) == [2, 3]
    assert numbers(run(deal(lease, 2))) == [4]
    assert not lease.asked, "nobody waits for a lease while others have batches"
    assert run(deal(lease, 2)) == Over(None)


def test_no_deal_crosses_an_edge() -> None:
    lease = Lease(4, edge=0)
    assert numbers(run(deal(lease, 3))) == [0]
    assert run(deal(lease, 3)) == Flush()


@given(
    trainers=st.lists(
        st.lists(st.integers(0, 50), min_size=1, max_size=4), min_size=1, max_size=4
    ),
    reduce=st.sampled_from(["mean", "sum"]),
)
def test_one_process_weighs_what_it_would_as_a_trainer(
    trainers: Sequence[Sequence[int]], reduce: str
) -> None:
    pace: Pace = Sync(reduce=reduce)  # type: ignore[arg-type]  # one of the two
    total = max(1, sum(map(sum, trainers)))
    for counts in trainers:
        if not sum(counts):
            continue
        outer = weigh(pace, sum(counts), total)
        for inner, count in zip(weights(pace, counts), counts, strict=True):
            assert outer * inner == pytest.approx(weigh(pace, count, total))


def test_a_trainer_that_waits_for_nobody_takes_the_mean_of_its_own() -> None:
    assert weights(Async(), [6, 2]) == (0.75, 0.25)
    assert weights(Async(), [0, 0]) == (0.0, 0.0)

"""Tasks and batches tile an epoch; what cannot be cut is refused by name."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.data.split import (
    batch_positions,
    check_stage,
    default_task_size,
    task_positions,
)
from paceline.errors import UsageError
from paceline.messages.shared import StageSpec

GOOD = StageSpec(
    stage=0,
    records=1000,
    batch_size=10,
    task_size=50,
    epochs=2,
    shuffle=True,
    seed=1,
    fingerprint="",
)


@given(
    records=st.integers(1, 2000), batch_size=st.integers(1, 70), batches=st.integers(1, 9)
)
def test_batches_tile_the_epoch(records: int, batch_size: int, batches: int) -> None:
    spec = msgspec.structs.replace(
        GOOD, records=records, batch_size=batch_size, task_size=batch_size * batches
    )
    check_stage(spec)
    reached = 0
    for task in range(spec.num_tasks()):
        start, stop = task_positions(spec, task)
        assert start == reached
        for batch in range(spec.num_batches(task)):
            first, end = batch_positions(spec, task, batch)
            assert first == reached
            assert 0 < end - first <= batch_size
            reached = end
        assert stop == reached
    assert reached == records


@pytest.mark.parametrize(
    ("records", "batch_size", "task_size"),
    [
        (1, 512, 512),  # one short batch
        (512 * 64, 512, 512),
        (262_818, 512, 512 * 8),  # 514 batches
        (10**9, 512, 512 * 64),  # never more than 64 batches
        (6400, 16, 96),
    ],
)
def test_a_task_has_a_64th_of_the_batches_within_bounds(
    records: int, batch_size: int, task_size: int
) -> None:
    assert default_task_size(records, batch_size) == task_size


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("batch_size", 0, "batch_size is missing, or 0: .* batch_size=64"),
        ("batch_size", -1, "batch_size must be a whole number >= 1, got -1"),
        ("batch_size", 2.5, "batch_size must be a whole number >= 1, got 2.5"),
        ("batch_size", True, "batch_size must be a whole number"),
        ("epochs", 0, "epochs must be a whole number >= 1, got 0"),
        ("task_size", -50, "task_size must be a whole number >= 1"),
        ("task_size", 55, "multiple of batch_size, got 55 and 10; try 50"),
        ("task_size", 5, "multiple of batch_size, got 5 and 10; try 10"),
        ("records", 0, "0 records; expected at least one"),
        ("seed", 2**63, "seed must be a whole number"),
        ("seed", "1", "seed must be a whole number"),
    ],
)
def test_a_stage_that_cannot_be_cut_is_refused(
    field: str, value: object, text: str
) -> None:
    with pytest.raises(UsageError, match=text):
        check_stage(msgspec.structs.replace(GOOD, **{field: value}))


def test_a_bad_batch_size_is_refused_before_it_divides() -> None:
    with pytest.raises(UsageError, match="batch_size"):
        default_task_size(100, 0)

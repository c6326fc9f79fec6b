"""Blocks that change by rows step as torch does, and know which rows a reader lacks."""

import pytest
import torch

from paceline.errors import UsageError
from paceline.messages.shared import Hyper
from paceline.params.dense import OptimizeBlock
from paceline.params.sparse import (
    RowChanges,
    SparseGradient,
    sum_sparse,
    why_not_by_rows,
)

ROWS, DIM = 40, 5
SETTINGS: list[tuple[str, Hyper]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "maximize": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("SparseAdam", {"lr": 0.1}),
    ("SparseAdam", {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3, "maximize": True}),
]


def gradients(steps: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Of batches of ids, some of them twice; the last batch has none."""
    draw = torch.Generator().manual_seed(3)
    found = []
    for step in range(steps):
        ids = torch.randint(0, ROWS, (9 if step + 1 < steps else 0,), generator=draw)
        values = torch.randn(len(ids), DIM, generator=draw).to(dtype)
        whole = torch.sparse_coo_tensor(
            ids[None], values, (ROWS, DIM), check_invariants=False
        )
        found.append(whole.coalesce())
    return found


def piece(gradient: torch.Tensor, start: int, stop: int) -> torch.Tensor:
    """The rows of a block."""
    rows = gradient.indices()[0]
    inside = (rows >= start) & (rows < stop)
    cut = SparseGradient(rows[inside] - start, gradient.values()[inside])
    return cut.as_torch(stop - start)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("kind", "hyper"), SETTINGS)
def test_blocks_of_rows_step_as_the_whole_weight_does_to_the_bit(
    kind: str, hyper: Hyper, dtype: torch.dtype
) -> None:
    weight = torch.linspace(-1, 1, ROWS * DIM).view(ROWS, DIM).to(dtype)
    cuts = [(0, 13), (13, 26), (26, 40)]
    blocks = [
        OptimizeBlock(weight[start:stop].clone(), kind, hyper) for start, stop in cuts
    ]
    plain = getattr(torch.optim, kind)([weight], **hyper)
    for step, gradient in enumerate(gradients(6, dtype)):
        now = {**hyper, "lr": 0.1 / (1 + step)}
        plain.param_groups[0]["lr"] = now["lr"]
        weight.grad = gradient
        plain.step()
        for block, (start, stop) in zip(blocks, cuts, strict=True):
            block.apply(piece(gradient, start, stop), now)
            assert torch.equal(block.values, weight[start:stop]), step
    assert not torch.equal(weight[0], weight[1])


@pytest.mark.parametrize(("kind", "hyper"), SETTINGS)
def test_a_loaded_block_of_rows_goes_on_identically(kind: str, hyper: Hyper) -> None:
    first = OptimizeBlock(torch.ones(ROWS, DIM), kind, hyper)
    for gradient in gradients(3):
        first.apply(gradient, hyper)
    second = OptimizeBlock(first.values.clone(), kind, hyper)
    second.load(first.state())
    assert all(value.shape in {(), (ROWS, DIM)} for value in first.state().values())
    for gradient in gradients(4):
        first.apply(gradient, hyper)
        second.apply(gradient, hyper)
    assert torch.equal(first.values, second.values)
    assert first.state().keys() == second.state().keys()
    for name, value in first.state().items():
        assert torch.equal(value, second.state()[name])


@pytest.mark.parametrize(
    ("kind", "hyper", "reason"),
    [
        ("Adam", {}, "Adam moves rows without a gradient"),
        ("SGD", {"momentum": 0.9}, "momentum of SGD changes rows"),
        ("Adagrad", {"weight_decay": 0.1}, "weight_decay of Adagrad changes rows"),
    ],
)
def test_what_moves_other_rows_is_refused_and_says_why(
    kind: str, hyper: Hyper, reason: str
) -> None:
    assert reason in str(why_not_by_rows(kind, hyper))
    with pytest.raises(UsageError, match=reason):
        OptimizeBlock(torch.ones(4, 2), kind, {"lr": 0.1, **hyper})


def test_sparse_adam_does_not_step_on_a_flat_block() -> None:
    with pytest.raises(UsageError, match="got 'SparseAdam'"):
        OptimizeBlock(torch.ones(4), "SparseAdam", {"lr": 0.1})


def _gradient(rows: list[int], *values: float) -> SparseGradient:
    return SparseGradient(torch.tensor(rows), torch.tensor(values).view(-1, 1))


def test_a_weighted_sum_is_over_the_union_of_rows_and_changes_no_input() -> None:
    one, two = _gradient([1, 3], 1.0, 2.0), _gradient([0, 3], 4.0, 8.0)
    total = sum_sparse([one, two, _gradient([])], [0.5, 0.25, 0.25])
    assert total.rows.tolist() == [0, 1, 3]
    assert total.values.tolist() == [[1.0], [0.5], [3.0]]
    assert two.values.tolist() == [[4.0], [8.0]]
    assert sum_sparse([one], [1.0]) is one
    assert sum_sparse([one], [0.5]).values.tolist() == [[0.5], [1.0]]


def test_a_weighted_sum_adds_in_the_order_given() -> None:
    values = [1e8, 1.0, -1e8]
    in_order = sum_sparse([_gradient([2], value) for value in values], [1.0] * 3)
    big_first = sum_sparse([_gradient([2], value) for value in sorted(values)], [1.0] * 3)
    assert in_order.values.item() == 0.0  # 1e8 + 1 is 1e8 in float32
    assert big_first.values.item() == 0.0
    cancelled = sum_sparse([_gradient([2], v) for v in (1e8, -1e8, 1.0)], [1.0] * 3)
    assert cancelled.values.item() == 1.0


def test_a_reader_lacks_the_rows_that_changed_since_it_read() -> None:
    changes = RowChanges(6)
    changes.note(torch.tensor([1, 4]))
    changes.note(torch.tensor([4, 5]))
    changes.note(torch.tensor([], dtype=torch.int64))
    assert changes.count == 3
    assert [rows.tolist() for rows in map(changes.since, range(4))] == [
        [1, 4, 5],
        [4, 5],
        [],
        [],
    ]


def test_who_knows_nothing_or_another_history_lacks_all_rows() -> None:
    changes = RowChanges(3)
    changes.note(torch.tensor([1]))
    assert changes.since(None) is None
    assert changes.since(2) is None
    assert changes.since(-1) is None
    changes.note_all()
    assert changes.since(1).tolist() == [0, 1, 2]

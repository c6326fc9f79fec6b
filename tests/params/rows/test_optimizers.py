"""Row optimizers step as torch does or as their papers say, and only what is touched."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from paceline.config import (
    FTRL,
    SGD,
    Adagrad,
    Adam,
    AdamW,
    FirstAdam,
    RowOptimizer,
    RowWiseAdagrad,
)
from paceline.params.rows.optimizers import fill_new_state, state_widths, step

DIM = 5
Float32s = NDArray[np.float32]
Steps = Sequence[tuple[list[int], Float32s]]  # (rows, gradients) of each step

OPTIMIZERS: list[RowOptimizer] = [
    SGD(lr=0.1),
    SGD(lr=0.1, momentum=0.9),
    Adagrad(lr=0.1, initial_accumulator=0.5),
    RowWiseAdagrad(lr=0.1),
    SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    Adam(lr=0.1, betas=(0.8, 0.99), steps="row"),
    AdamW(lr=0.1, betas=(0.8, 0.99), weight_decay=0.1, steps="row"),
    FTRL(lr=0.1, l1=0.3, l2=0.1),
]


def _normal(seed: int, *shape: int) -> Float32s:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _begin(optimizer: RowOptimizer, values: Float32s) -> dict[str, Float32s]:
    """The state of new rows with these values."""
    widths = state_widths(optimizer, DIM)
    state = {name: np.empty((len(values), w), np.float32) for name, w in widths.items()}
    fill_new_state(optimizer, values, state)
    return state


def _stepped(optimizer: RowOptimizer, begin: Float32s, steps: Steps) -> Float32s:
    """What the rows are after these steps."""
    values, state = begin.copy(), _begin(optimizer, begin)
    for number, (rows, gradients) in enumerate(steps, 1):
        ids = np.array(rows, np.int64)
        step(optimizer, values, state, ids, gradients, table_step=number)
    return values


def _every_row(num_rows: int, num_steps: int) -> Steps:
    rows = list(range(num_rows))
    return [(rows, _normal(seed, num_rows, DIM)) for seed in range(num_steps)]


def _some_rows(num_rows: int, num_steps: int) -> Steps:
    random = np.random.default_rng(7)
    return [
        (rows, _normal(seed, len(rows), DIM))
        for seed in range(num_steps)
        for rows in [random.permutation(num_rows)[: 1 + seed % num_rows].tolist()]
    ]


def _assert_close(values: Float32s, expected: NDArray[np.floating]) -> None:
    error = np.linalg.norm(values - expected)
    assert error <= 1e-6 * np.linalg.norm(expected)


TWINS: list[tuple[RowOptimizer, Callable[[Iterable[torch.Tensor]], torch.optim.Optimizer]]]
TWINS = [
    (SGD(lr=0.1, momentum=0.9), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    (
        SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.2),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.2),
    ),
    (SGD(lr=0.1, weight_decay=0.2), lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.2)),
    (
        Adagrad(lr=0.1, initial_accumulator=0.3, weight_decay=0.2),
        lambda p: torch.optim.Adagrad(
            p, lr=0.1, initial_accumulator_value=0.3, weight_decay=0.2
        ),
    ),
    (Adam(lr=0.1, steps="row"), lambda p: torch.optim.Adam(p, lr=0.1)),
    (Adam(lr=0.1), lambda p: torch.optim.Adam(p, lr=0.1)),
    (
        Adam(lr=0.1, betas=(0.5, 0.9), eps=1e-2, steps="row"),
        lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.5, 0.9), eps=1e-2),
    ),
    (
        Adam(lr=0.1, weight_decay=0.2),
        lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.2),
    ),
    (
        AdamW(lr=0.1, eps=1e-2, weight_decay=0.2),
        lambda p: torch.optim.AdamW(p, lr=0.1, eps=1e-2, weight_decay=0.2),
    ),
    (
        AdamW(lr=0.1, eps=1e-2, weight_decay=0.2, steps="row"),
        lambda p: torch.optim.AdamW(p, lr=0.1, eps=1e-2, weight_decay=0.2),
    ),
]


@pytest.mark.parametrize("dim", [1, 4, 5, 33])
def test_adam_by_table_goes_as_sparse_adam_does_to_the_bit(dim: int) -> None:
    adam = Adam(lr=0.05, betas=(0.8, 0.95))
    values = _normal(1, 40, dim)
    state = {n: np.zeros((40, w), np.float32) for n, w in state_widths(adam, dim).items()}
    weight = torch.from_numpy(values.copy()).requires_grad_()
    twin = torch.optim.SparseAdam([weight], lr=0.05, betas=(0.8, 0.95))
    for number in range(1, 60):
        random = np.random.default_rng(number)
        rows = np.sort(random.permutation(40)[: 1 + number % 9])
        gradients = _normal(number, len(rows), dim)
        weight.grad = torch.sparse_coo_tensor(
            torch.from_numpy(rows)[None],
            torch.from_numpy(gradients),
            (40, dim),
            is_coalesced=True,
            check_invariants=False,
        )
        twin.step()
        step(adam, values, state, rows, gradients, table_step=number)
        np.testing.assert_array_equal(values, weight.detach().numpy())


def test_adam_of_before_is_adam_by_row() -> None:
    begin, steps = _normal(9, 6, DIM), _some_rows(6, 12)
    before = _stepped(FirstAdam(lr=0.1), begin, steps)
    np.testing.assert_array_equal(before, _stepped(Adam(lr=0.1, steps="row"), begin, steps))


def test_decay_takes_off_in_steps_that_touch_a_row_alone() -> None:
    begin, nothing = np.ones((2, DIM), np.float32), np.zeros((1, DIM), np.float32)
    adamw = AdamW(lr=0.1, weight_decay=0.5)
    after = _stepped(adamw, begin, [([0], nothing), ([0], nothing)])
    np.testing.assert_allclose(after[0], (1 - 0.1 * 0.5) ** 2, rtol=1e-6)
    np.testing.assert_array_equal(after[1], begin[1])


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize(("optimizer", "make"), TWINS)
def test_rows_that_every_step_touches_go_as_in_torch(
    optimizer: RowOptimizer,
    make: Callable[[Iterable[torch.Tensor]], torch.optim.Optimizer],
) -> None:
    begin, steps = _normal(99, 8, DIM), _every_row(8, 30)
    weight = torch.from_numpy(begin.copy()).requires_grad_()
    twin = make([weight])
    for _, gradients in steps:
        gradient = torch.from_numpy(gradients)
        is_sparse = isinstance(twin, torch.optim.SparseAdam)
        weight.grad = gradient.to_sparse(1) if is_sparse else gradient
        twin.step()
    _assert_close(_stepped(optimizer, begin, steps), weight.detach().numpy())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_row_goes_as_if_it_were_alone_whatever_steps_pass_it_by(
    optimizer: RowOptimizer,
) -> None:
    begin, steps = _normal(99, 6, DIM), _some_rows(6, 25)
    together = _stepped(optimizer, begin, steps)
    for row in range(6):
        own = [
            ([0], gradients[[rows.index(row)]]) for rows, gradients in steps if row in rows
        ]
        assert 0 < len(own) < 25
        alone = _stepped(optimizer, begin[[row]], own)
        np.testing.assert_array_equal(together[[row]], alone)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_changes_nothing_of_a_row_that_it_does_not_touch(
    optimizer: RowOptimizer,
) -> None:
    values = _normal(1, 3, DIM)
    state = _begin(optimizer, values)
    step(optimizer, values, state, np.arange(3), _normal(2, 3, DIM))
    before = [array.copy() for array in (values, *state.values())]
    step(optimizer, values, state, np.array([0, 2]), _normal(3, 2, DIM))
    for array, was in zip((values, *state.values()), before, strict=True):
        np.testing.assert_array_equal(array[1], was[1])
        assert not np.array_equal(array[0], was[0])


def test_a_rare_row_of_adam_is_corrected_by_its_own_steps() -> None:
    begin, ones = np.zeros((2, DIM), np.float32), np.ones((1, DIM), np.float32)
    steps = [([0], ones)] * 500 + [([1], ones)]
    first_move = -0.1 / (1 + 1e-8)  # m_hat = v_hat = 1 at t = 1
    rare = _stepped(Adam(lr=0.1, steps="row"), begin, steps)[1]
    np.testing.assert_allclose(rare, first_move, rtol=1e-6)


def test_a_count_of_steps_that_is_full_leaves_adam_going() -> None:
    adam, rows = Adam(lr=0.1, steps="row"), np.zeros(1, np.int64)
    values, ones = np.zeros((1, DIM), np.float32), np.ones((1, DIM), np.float32)
    state = _begin(adam, values)
    state["steps"].fill(2**24)
    state["exp_avg"].fill(1)
    state["exp_avg_sq"].fill(1)
    step(adam, values, state, rows, ones)
    assert state["steps"] == 2**24
    np.testing.assert_allclose(values, -0.1, rtol=1e-6)


def test_row_wise_adagrad_is_its_formula() -> None:
    lr, eps, begin, steps = 0.1, 1e-3, _normal(99, 4, DIM), _some_rows(4, 20)
    optimizer = RowWiseAdagrad(lr=lr, initial_accumulator=0.5, eps=eps)
    w, total = begin.astype(np.float64), np.full(4, 0.5)
    for rows, gradients in steps:
        for r, g in zip(rows, gradients.astype(np.float64), strict=True):
            total[r] += (g**2).sum() / DIM
            w[r] -= lr * g / (math.sqrt(total[r]) + eps)
    _assert_close(_stepped(optimizer, begin, steps), w)


def _ftrl_proximal(steps: Steps, num_rows: int, optimizer: FTRL) -> NDArray[np.float64]:
    """McMahan et al. 2013, Algorithm 1, one coordinate at a time, in float64."""
    alpha, beta = optimizer.lr, optimizer.beta
    lambda1, lambda2 = optimizer.l1, optimizer.l2
    w, z, n = np.zeros((3, num_rows, DIM))
    for rows, gradients in steps:
        for k, row in enumerate(rows):
            for j in range(DIM):
                i, g = (row, j), float(gradients[k, j])
                sigma = (math.sqrt(n[i] + g**2) - math.sqrt(n[i])) / alpha
                z[i] += g - sigma * w[i]
                n[i] += g**2
                if abs(z[i]) <= lambda1:
                    w[i] = 0
                else:
                    rate = 1 / ((beta + math.sqrt(n[i])) / alpha + lambda2)
                    w[i] = -rate * (z[i] - math.copysign(1, z[i]) * lambda1)
    return w


@pytest.mark.parametrize(
    "optimizer", [FTRL(), FTRL(lr=0.5, beta=0.1, l1=2.0), FTRL(lr=0.3, l1=1.0, l2=3.0)]
)
def test_ftrl_is_the_algorithm_of_its_paper(optimizer: FTRL) -> None:
    steps = _some_rows(4, 20)
    expected = _ftrl_proximal(steps, 4, optimizer)
    found = _stepped(optimizer, np.zeros((4, DIM), np.float32), steps)
    _assert_close(found, expected)
    np.testing.assert_array_equal(found == 0, expected == 0)
    assert (found == 0).any() == (optimizer.l1 > 0)


def test_ftrl_without_regularisation_descends_from_wherever_a_row_begins() -> None:
    alpha, beta, begin, steps = 0.2, 0.5, _normal(99, 4, DIM), _some_rows(4, 20)
    w, n = begin.astype(np.float64), np.zeros((4, DIM))
    for rows, gradients in steps:
        for r, g in zip(rows, gradients.astype(np.float64), strict=True):
            n[r] += g**2
            w[r] -= alpha / (beta + np.sqrt(n[r])) * g
    _assert_close(_stepped(FTRL(lr=alpha, beta=beta), begin, steps), w)


def test_ftrl_stays_close_to_its_formula_over_many_small_gradients() -> None:
    optimizer = FTRL(lr=0.1)
    steps = [([0], 1e-2 * _normal(seed, 1, DIM)) for seed in range(3000)]
    steps[0] = ([0], np.full((1, DIM), 30, np.float32))
    expected = _ftrl_proximal(steps, 1, optimizer)
    found = _stepped(optimizer, np.zeros((1, DIM), np.float32), steps)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_state_is_as_wide_as_it_is_said_to_be() -> None:
    widths = [sum(state_widths(optimizer, DIM).values()) for optimizer in OPTIMIZERS]
    assert widths == [0, DIM, DIM, 1, DIM, 2 * DIM + 1, 2 * DIM + 1, 2 * DIM]
    by_table: list[RowOptimizer] = [Adam(lr=0.1), AdamW(lr=0.1)]
    assert [sum(state_widths(one, DIM).values()) for one in by_table] == [2 * DIM] * 2

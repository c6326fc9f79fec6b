"""A step at half the rate is a step of an optimizer with half the learning rate."""

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from paceline.config import SGD, Adagrad, Adam, AdamW, RowOptimizer, RowWiseAdagrad
from paceline.params.rows.optimizers import fill_new_state, state_widths, step

DIM, ROWS = 4, 6
Float32s = NDArray[np.float32]
OPTIMIZERS: list[RowOptimizer] = [
    SGD(lr=0.1),
    SGD(lr=0.1, momentum=0.9),
    Adagrad(lr=0.1, initial_accumulator=0.5),
    RowWiseAdagrad(lr=0.1),
    Adam(lr=0.1, betas=(0.8, 0.99), steps="row"),
    Adam(lr=0.1, betas=(0.8, 0.99)),
    AdamW(lr=0.1, betas=(0.8, 0.99), weight_decay=0.3),
]
RATES = [1.0, 0.5, 1 / 3, 1.0, 0.1, 1 / 64]


def _after(optimizer: RowOptimizer, rates: list[float], *, as_lr: bool) -> Float32s:
    """Rows after a step at each rate: by ``rate``, or by another learning rate."""
    random = np.random.default_rng(3)
    values = random.normal(size=(ROWS, DIM)).astype(np.float32)
    widths = state_widths(optimizer, DIM)
    state = {name: np.empty((ROWS, w), np.float32) for name, w in widths.items()}
    fill_new_state(optimizer, values, state)
    for number, rate in enumerate(rates, 1):
        rows = random.permutation(ROWS)[:4].astype(np.int64)
        gradients = random.normal(size=(4, DIM)).astype(np.float32)
        if as_lr:
            slower = msgspec.structs.replace(optimizer, lr=optimizer.lr * rate)
            step(slower, values, state, rows, gradients, table_step=number)
        else:
            step(optimizer, values, state, rows, gradients, rate, number)
    return values


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_rate_is_a_learning_rate_times_as_much(optimizer: RowOptimizer) -> None:
    found = _after(optimizer, RATES, as_lr=False)
    expected = _after(optimizer, RATES, as_lr=True)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_rate_of_one_changes_no_bit(optimizer: RowOptimizer) -> None:
    whole = [1.0] * 8
    found = _after(optimizer, whole, as_lr=False)
    np.testing.assert_array_equal(found, _after(optimizer, whole, as_lr=True))

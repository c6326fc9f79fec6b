"""Row optimizers: what a row keeps besides its values, and how a step changes both.

::

    optimizer        state of a row, float32                 begins as
    SGD              none
      with momentum  momentum_buffer (dim)                   0
    Adagrad          sums (dim)                              initial_accumulator
    RowWiseAdagrad   row_sums (1)                            initial_accumulator
    Adam, AdamW      exp_avg (dim), exp_avg_sq (dim)         0, 0
      by row         and steps (1)                           0
    FTRL             z (dim), n (dim)                        -w * beta / lr, 0

The names are those of columns in a cut. State is an array (rows made, width) for each. The
steps of a whole table are counted by the table.

Pure: callers keep two calls from writing to the same arrays. Sources: see `step_kernels`.
"""

import functools
import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import torch

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
from paceline.params.rows import compiled
from paceline.params.rows.compiled import Float32s, Int64s

State = Mapping[str, Float32s]  # {name: (rows, width)}

# Steps of a row whose bias correction is looked up; those of later ones are worked out.
KNOWN_STEPS: Final = 1 << 14

_ALL: Final = slice(None)


def counts_table_steps(optimizer: RowOptimizer) -> bool:
    """Whether a step needs to know how many the table has had, this one included."""
    return isinstance(optimizer, Adam | AdamW) and optimizer.steps == "table"


def state_widths(optimizer: RowOptimizer, dim: int) -> dict[str, int]:
    """How many numbers of each state a row of ``dim`` values has: ``{name: width}``."""
    match optimizer:
        case SGD(momentum=momentum):
            return {"momentum_buffer": dim} if momentum else {}
        case Adagrad():
            return {"sums": dim}
        case RowWiseAdagrad():
            return {"row_sums": 1}
        case Adam(steps="table") | AdamW(steps="table"):
            return {"exp_avg": dim, "exp_avg_sq": dim}
        case Adam() | AdamW() | FirstAdam():
            return {"exp_avg": dim, "exp_avg_sq": dim, "steps": 1}
        case FTRL():
            return {"z": dim, "n": dim}


def fill_new_state(
    optimizer: RowOptimizer, values: Float32s, state: State, rows: Int64s | slice = _ALL
) -> None:
    """Write the state of new rows, which begin as their ``values``; see `state_widths`.

    ``rows``: which of them are new, if not all.
    """
    for array in state.values():
        array[rows] = 0.0
    match optimizer:
        case Adagrad(initial_accumulator=begin):
            state["sums"][rows] = begin
        case RowWiseAdagrad(initial_accumulator=begin):
            state["row_sums"][rows] = begin
        case FTRL(lr=alpha, beta=beta):
            state["z"][rows] = values[rows] * np.float32(-beta / alpha)


def step(
    optimizer: RowOptimizer,
    values: Float32s,
    state: State,
    rows: Int64s,
    gradients: Float32s,
    rate: float = 1.0,
    table_step: int = 0,
) -> None:
    """Take one step on the named rows, values and state; no other row is touched.

    ``rows`` (n,) are distinct; gradients (n, dim) may be read-only or unaligned. ``rate``
    multiplies the learning rate; it is 1 for FTRL, which has no step to shorten.
    ``table_step``: which step of the table it is, from 1; see `counts_table_steps`.
    """
    f32, kernels = np.float32, compiled.step_kernels
    match optimizer:
        case SGD(lr=lr, momentum=0, weight_decay=decay):
            gradients = _decayed(values, rows, gradients, decay)
            kernels.sgd(values, rows, gradients, f32(lr * rate))
        case SGD(lr=lr, momentum=mu, nesterov=nesterov, weight_decay=decay):
            gradients = _decayed(values, rows, gradients, decay)
            kernel = kernels.nesterov if nesterov else kernels.momentum
            buffers = state["momentum_buffer"]
            kernel(values, buffers, rows, gradients, f32(lr * rate), f32(mu))
        case Adagrad(lr=lr, eps=eps, weight_decay=decay):
            gradients = _decayed(values, rows, gradients, decay)
            sums = state["sums"]
            kernels.adagrad(values, sums, rows, gradients, f32(lr * rate), f32(eps))
        case RowWiseAdagrad(lr=lr, eps=eps):
            sums = state["row_sums"]
            lr32 = f32(lr * rate)
            kernels.row_wise_adagrad(values, sums, rows, gradients, lr32, f32(eps))
        case FirstAdam():
            _step_adam(optimizer.today(), values, state, rows, gradients, rate, 0)
        case Adam() | AdamW():
            _step_adam(optimizer, values, state, rows, gradients, rate, table_step)
        case FTRL(lr=alpha, beta=beta, l1=l1, l2=l2):
            assert rate == 1.0, "refused by why_not_guarded"
            rounded = (f32(alpha), f32(beta), f32(l1), f32(l2))
            kernels.ftrl(values, state["z"], state["n"], rows, gradients, rounded)


def _decayed(values: Float32s, rows: Int64s, gradients: Float32s, decay: float) -> Float32s:
    """The gradients with those of the decay; the very same where there is none."""
    if not decay:
        return gradients
    found = np.empty(gradients.shape, np.float32)
    compiled.step_kernels.decayed(values, rows, gradients, np.float32(decay), found)
    return found


def _step_adam(
    optimizer: Adam | AdamW,
    values: Float32s,
    state: State,
    rows: Int64s,
    gradients: Float32s,
    rate: float,
    table_step: int,
) -> None:
    kernels = compiled.step_kernels
    lr, eps = float(optimizer.lr), float(optimizer.eps)
    b1, b2 = map(float, optimizer.betas)
    decay = optimizer.weight_decay
    if decay and isinstance(optimizer, Adam):
        gradients = _decayed(values, rows, gradients, decay)
    elif decay:
        kernels.shrink(values, rows, np.float32(1 - optimizer.lr * rate * decay))
    m, v = state["exp_avg"], state["exp_avg_sq"]
    if optimizer.steps == "table":
        found = np.empty(gradients.shape, np.float32)
        kernels.adam_moments(m, v, rows, gradients, b1, b2, found)
        torch.from_numpy(found).sqrt_()  # torch's root: see there
        correction = _correction(optimizer, lr * rate, table_step)
        kernels.adam_move(values, m, rows, found, *correction, eps)
        return
    known = _corrections(lr, b1, b2)
    if rate != 1.0:  # rather than a table for each rate
        known = known * np.array([rate, 1.0], np.float32)
    hyper = (lr * rate, b1, b2, eps)
    kernels.adam(values, m, v, state["steps"], rows, gradients, hyper, known)


def _correction(optimizer: Adam | AdamW, lr: float, number: int) -> tuple[float, float]:
    """What `adam_move` is told of a step: as torch's SparseAdam, or AdamW, works it out."""
    assert number > 0, "the table counts its steps, from 1"
    b1, b2 = optimizer.betas
    rest, root = 1 - b1**number, math.sqrt(1 - b2**number)
    if isinstance(optimizer, AdamW):
        return lr / rest, root
    return lr * root / rest, 1.0


@functools.lru_cache(maxsize=64)
def _corrections(lr: float, b1: float, b2: float) -> Float32s:
    corrections = np.zeros((KNOWN_STEPS, 2), np.float32)
    compiled.step_kernels.adam_corrections(lr, b1, b2, corrections)
    return corrections

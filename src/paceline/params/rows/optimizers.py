"""Row optimizers: what a row keeps besides its values, and how a step changes both.

::

    optimizer        state of a row, float32                 begins as
    SGD              none
      with momentum  momentum_buffer (dim)                   0
    Adagrad          sums (dim)                              initial_accumulator
    RowWiseAdagrad   row_sums (1)                            initial_accumulator
    Adam             exp_avg (dim), exp_avg_sq (dim), steps (1)    0, 0, 0
    FTRL             z (dim), n (dim)                        -w * beta / lr, 0

The names are those of columns in a cut. State is an array (rows made, width) for each.

Pure: callers keep two calls from writing to the same arrays. Sources: see `kernels`.
"""

import functools
from collections.abc import Mapping
from typing import Final

import numpy as np

from paceline.config import FTRL, SGD, Adagrad, Adam, RowOptimizer, RowWiseAdagrad
from paceline.params.rows import kernels
from paceline.params.rows.kernels import Float32s, Int64s

State = Mapping[str, Float32s]  # {name: (rows, width)}

# Steps of a row whose bias correction is looked up; those of later ones are worked out.
KNOWN_STEPS: Final = 1 << 14


def state_widths(optimizer: RowOptimizer, dim: int) -> dict[str, int]:
    """How many numbers of each state a row of ``dim`` values has: ``{name: width}``."""
    match optimizer:
        case SGD(momentum=momentum):
            return {"momentum_buffer": dim} if momentum else {}
        case Adagrad():
            return {"sums": dim}
        case RowWiseAdagrad():
            return {"row_sums": 1}
        case Adam():
            return {"exp_avg": dim, "exp_avg_sq": dim, "steps": 1}
        case FTRL():
            return {"z": dim, "n": dim}


def fill_new_state(optimizer: RowOptimizer, values: Float32s, state: State) -> None:
    """Write the state of new rows.

    Args:
        optimizer: whose state it is.
        values: float32 (n, dim), what the new rows begin as.
        state: of the same rows, by `state_widths`; every element is written.
    """
    for array in state.values():
        array.fill(0.0)
    match optimizer:
        case Adagrad(initial_accumulator=begin):
            state["sums"].fill(begin)
        case RowWiseAdagrad(initial_accumulator=begin):
            state["row_sums"].fill(begin)
        case FTRL(lr=alpha, beta=beta):
            np.multiply(values, np.float32(-beta / alpha), out=state["z"])


def step(
    optimizer: RowOptimizer,
    values: Float32s,
    state: State,
    rows: Int64s,
    gradients: Float32s,
    rate: float = 1.0,
) -> None:
    """Take one step on the named rows, values and state; no other row is touched.

    Args:
        optimizer: whose step it is.
        values: float32 (rows made, dim), changed in place.
        state: of the same rows, by `state_widths`, changed in place.
        rows: int64 (n,), distinct.
        gradients: float32 (n, dim), only read; may be read-only or unaligned.
        rate: multiplies the learning rate; 1 for FTRL, which has no step to shorten.
    """
    f32 = np.float32
    match optimizer:
        case SGD(lr=lr, momentum=0):
            kernels.sgd(values, rows, gradients, f32(lr * rate))
        case SGD(lr=lr, momentum=mu):
            buffers = state["momentum_buffer"]
            kernels.momentum(values, buffers, rows, gradients, f32(lr * rate), f32(mu))
        case Adagrad(lr=lr, eps=eps):
            sums = state["sums"]
            kernels.adagrad(values, sums, rows, gradients, f32(lr * rate), f32(eps))
        case RowWiseAdagrad(lr=lr, eps=eps):
            sums = state["row_sums"]
            lr32 = f32(lr * rate)
            kernels.row_wise_adagrad(values, sums, rows, gradients, lr32, f32(eps))
        case Adam(lr=lr, betas=(b1, b2), eps=eps):
            m, v, t = state["exp_avg"], state["exp_avg_sq"], state["steps"]
            known = _corrections(float(lr), float(b1), float(b2))
            if rate != 1.0:  # rather than a table for each rate
                known = known * np.array([rate, 1.0], np.float32)
            hyper = (float(lr * rate), float(b1), float(b2), float(eps))
            kernels.adam(values, m, v, t, rows, gradients, hyper, known)
        case FTRL(lr=alpha, beta=beta, l1=l1, l2=l2):
            assert rate == 1.0, "refused by why_not_guarded"
            rounded = (f32(alpha), f32(beta), f32(l1), f32(l2))
            kernels.ftrl(values, state["z"], state["n"], rows, gradients, rounded)


@functools.lru_cache(maxsize=64)
def _corrections(lr: float, b1: float, b2: float) -> Float32s:
    corrections = np.zeros((KNOWN_STEPS, 2), np.float32)
    kernels.adam_corrections(lr, b1, b2, corrections)
    return corrections

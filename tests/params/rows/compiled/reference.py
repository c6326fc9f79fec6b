"""The functions of `kernels` and `step_kernels` in plain NumPy: what they must equal.

The same names and arguments, written to be read, not to be fast. All are equal to the
kernels bit for bit, but for `draw_normal` and the values of `adam`, where two mathematical
libraries may differ in the last bit of a logarithm, sine or power.

Pure.
"""

import math

import numpy as np

from paceline.params.rows.compiled.arrays import Float32s, Int64s

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def mix64(x: int) -> int:
    """Splitmix64's mixer on a Python integer."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _draws(key: int, id_: int, count: int) -> list[int]:
    """The first draws of the splitmix64 stream of one row."""
    start = mix64((id_ & _MASK) ^ key)
    return [mix64((start + (j + 1) * _GOLDEN) & _MASK) for j in range(count)]


def slot_of(key: int, ids: Int64s, num_slots: int) -> Int64s:
    """Draw the slot of each id of the table with this key."""
    drawn = [mix64((id_ & _MASK) ^ key) % num_slots for id_ in ids.tolist()]
    return np.array(drawn, np.int64)


def group_by_slot(
    ids: Int64s, key: int, num_slots: int
) -> tuple[Int64s, tuple[int, ...], tuple[int, ...]]:
    """A stable sort by slot: positions of ids, the slots that occur, and of how many."""
    slots = slot_of(key, ids, num_slots)
    occurring, counts = np.unique(slots, return_counts=True)
    order = np.argsort(slots, kind="stable")
    return order, tuple(occurring.tolist()), tuple(counts.tolist())


def find_or_insert(
    index: dict[int, int], ids: Int64s, known: Int64s, count: int, rows: Int64s
) -> int:
    """An id map is a dictionary ``{id: row}``."""
    for i, id_ in enumerate(ids.tolist()):
        rows[i] = index.setdefault(id_, count)
        if rows[i] == count:
            known[count] = id_
            count += 1
    return count


def insert_by_slot(
    index: dict[int, int],
    ids: Int64s,
    ends: Int64s,
    known: Int64s,
    nexts: Int64s,
    rows: Int64s,
) -> None:
    """A slot after the other; an id is of one of them."""
    for n in range(len(nexts)):
        mine = slice(ends[n], ends[n + 1])
        nexts[n] = find_or_insert(index, ids[mine], known, nexts[n], rows[mine])


def find(index: dict[int, int], ids: Int64s, rows: Int64s) -> None:
    """Look ids up; -1 where unknown."""
    rows[:] = [index.get(id_, -1) for id_ in ids.tolist()]


def draw_uniform(key: int, ids: Int64s, bound: np.float32, out: Float32s) -> None:
    """``bound * u``, u uniform in [-1, 1) on a grid of 2^-23."""
    for i, id_ in enumerate(ids.tolist()):
        draws = _draws(key, id_, out.shape[1])
        u = np.array([(draw >> 40) * 2.0**-23 - 1.0 for draw in draws], np.float32)
        out[i] = bound * u


def draw_normal(key: int, ids: Int64s, std: float, out: Float32s) -> None:
    """Two normal draws by Box-Muller from two uniform ones."""
    dim = out.shape[1]
    for i, id_ in enumerate(ids.tolist()):
        draws = _draws(key, id_, dim + dim % 2)
        u1 = np.array([(draw >> 11) + 1 for draw in draws[::2]], np.float64) * 2.0**-53
        u2 = np.array([draw >> 11 for draw in draws[1::2]], np.float64) * 2.0**-53
        r = std * np.sqrt(-2.0 * np.log(u1))
        pairs = np.stack([r * np.cos(2 * np.pi * u2), r * np.sin(2 * np.pi * u2)], axis=1)
        out[i] = pairs.reshape(-1)[:dim]


def gather(values: Float32s, rows: Int64s, out: Float32s) -> None:
    """Copy known rows; places of row -1 are left as they are."""
    out[rows >= 0] = values[rows[rows >= 0]]


def put(values: Float32s, rows: Int64s, out: Float32s) -> None:
    """Copy values to rows of ``out``."""
    out[rows] = values


def sum_duplicates(inverse: Int64s, gradients: Float32s, sums: Float32s) -> None:
    """Add gradient i to ``sums[inverse[i]]``, in the order of i."""
    np.add.at(sums, inverse, gradients)


def sgd(values: Float32s, rows: Int64s, gradients: Float32s, lr: np.float32) -> None:
    """``w -= lr * g`` on unique rows."""
    values[rows] -= lr * gradients


def momentum(
    values: Float32s,
    buffers: Float32s,
    rows: Int64s,
    gradients: Float32s,
    lr: np.float32,
    mu: np.float32,
) -> None:
    """``m = mu*m + g; w -= lr * m`` on unique rows."""
    buffers[rows] = mu * buffers[rows] + gradients
    values[rows] -= lr * buffers[rows]


def adagrad(
    values: Float32s,
    sums: Float32s,
    rows: Int64s,
    gradients: Float32s,
    lr: np.float32,
    eps: np.float32,
) -> None:
    """``G += g*g; w -= lr * (g / (sqrt(G) + eps))`` on unique rows."""
    sums[rows] += gradients * gradients
    values[rows] -= lr * (gradients / (np.sqrt(sums[rows]) + eps))


def nesterov(
    values: Float32s,
    buffers: Float32s,
    rows: Int64s,
    gradients: Float32s,
    lr: np.float32,
    mu: np.float32,
) -> None:
    """``m = mu*m + g; w -= lr * (g + mu*m)`` on unique rows."""
    buffers[rows] = mu * buffers[rows] + gradients
    values[rows] -= lr * (gradients + mu * buffers[rows])


def decayed(
    values: Float32s,
    rows: Int64s,
    gradients: Float32s,
    decay: np.float32,
    out: Float32s,
) -> None:
    """``g + decay * w`` of unique rows."""
    out[:] = gradients + decay * values[rows]


def shrink(values: Float32s, rows: Int64s, kept: np.float32) -> None:
    """``w *= kept`` on unique rows."""
    values[rows] *= kept


def row_wise_adagrad(
    values: Float32s,
    row_sums: Float32s,
    rows: Int64s,
    gradients: Float32s,
    lr: np.float32,
    eps: np.float32,
) -> None:
    """``G += mean(g*g); w -= lr * (g / (sqrt(G) + eps))`` on unique rows."""
    squares = np.zeros((len(rows), 1), np.float32)
    for j in range(values.shape[1]):  # NumPy's own mean adds up in another order
        squares[:, 0] += gradients[:, j] * gradients[:, j]
    row_sums[rows] += squares / np.float32(values.shape[1])
    values[rows] -= lr * (gradients / (np.sqrt(row_sums[rows]) + eps))


def adam(
    values: Float32s,
    exp_avg: Float32s,
    exp_avg_sq: Float32s,
    steps: Float32s,
    rows: Int64s,
    gradients: Float32s,
    hyper: tuple[float, float, float, float],
) -> None:
    """``w -= lr * m_hat / (sqrt(v_hat) + eps)`` on unique rows; their t is in ``steps``."""
    lr, b1, b2, eps = hyper
    exp_avg[rows] += np.float32(1 - b1) * (gradients - exp_avg[rows])
    exp_avg_sq[rows] += np.float32(1 - b2) * (gradients * gradients - exp_avg_sq[rows])
    steps[rows] += np.float32(1)
    for row in rows:
        t = float(steps[row, 0])
        rate = np.float32(lr / (1 - math.pow(b1, t)))
        root = np.float32(math.sqrt(1 - math.pow(b2, t)))
        scale = np.sqrt(exp_avg_sq[row]) / root + np.float32(eps)
        values[row] -= rate * (exp_avg[row] / scale)


def adam_moments(
    exp_avg: Float32s,
    exp_avg_sq: Float32s,
    rows: Int64s,
    gradients: Float32s,
    b1: float,
    b2: float,
    found: Float32s,
) -> None:
    """``m += (1-b1) * (g - m); v += (1-b2) * (g*g - v)`` on unique rows; v in ``found``."""
    new1, new2 = np.float32(1 - b1), np.float32(1 - b2)
    exp_avg[rows] += new1 * (gradients - exp_avg[rows])
    exp_avg_sq[rows] += new2 * (gradients * gradients - exp_avg_sq[rows])
    found[:] = exp_avg_sq[rows]


def adam_move(
    values: Float32s,
    exp_avg: Float32s,
    rows: Int64s,
    roots: Float32s,
    rate: float,
    root: float,
    eps: float,
) -> None:
    """``w -= rate * (m / (roots / root + eps))`` on unique rows."""
    rate32, root32, eps32 = np.float32(rate), np.float32(root), np.float32(eps)
    values[rows] -= rate32 * (exp_avg[rows] / (roots / root32 + eps32))


def ftrl(
    values: Float32s,
    z: Float32s,
    n: Float32s,
    rows: Int64s,
    gradients: Float32s,
    hyper: tuple[np.float32, np.float32, np.float32, np.float32],
) -> None:
    """FTRL-Proximal on unique rows; ``hyper`` is (alpha, beta, lambda1, lambda2)."""
    alpha, beta, lambda1, lambda2 = hyper
    before = np.sqrt(n[rows])
    n[rows] += gradients * gradients
    after = np.sqrt(n[rows])
    z[rows] += gradients - (after - before) / alpha * values[rows]
    distance = z[rows] - np.copysign(lambda1, z[rows])
    moved = -distance / ((beta + after) / alpha + lambda2)
    values[rows] = np.where(np.abs(z[rows]) <= lambda1, np.float32(0), moved)

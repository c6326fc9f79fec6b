"""Which record stands at which position of an epoch.

::

    position --add, multiply, fold (6 rounds, keyed by seed and epoch)--> candidate
    candidate >= n: through the rounds again, until it is a record ("cycle walking")

The rounds work on the smallest power of two that holds ``n`` and each of their steps can
be undone, so the whole is a permutation; walking the cycle restricts it to ``0..n - 1``
and keeps it one (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). No
list of records is kept: memory and start-up do not grow with ``n``, and a trainer that
gets a task of any epoch knows its records at once.

Pure; every trainer, on every machine, computes the same.
"""

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]

_NUM_ROUNDS = 6
_MASK_64 = (1 << 64) - 1


def records_at(
    positions: Positions, n: int, seed: int, epoch: int, shuffle: bool, *, loop: int = 0
) -> Positions:
    """The records at ``positions`` of an epoch over ``n`` records.

    Over all of ``0..n - 1`` it is a bijection. It costs about 20 passes over the
    positions, each a NumPy call: ask for a whole task at once, not batch by batch.

    Seed, epoch and the number of the loop over them are the key of the permutation; without
    ``shuffle``, position is record.

    Returns:
        int64 of the shape of the positions, the caller's own.
    """
    positions = np.asarray(positions, dtype=np.int64)
    assert positions.size == 0 or (positions.min() >= 0 and positions.max() < n)
    if not shuffle or n <= 1:
        return positions.copy()
    bits = (n - 1).bit_length()
    keys = _round_keys(_seed_of(seed, loop), epoch, bits)
    values = positions.astype(np.uint64).ravel()
    _mix(values, keys, bits)
    outside = np.flatnonzero(values >= n)
    while outside.size:
        walking = values[outside]
        _mix(walking, keys, bits)
        values[outside] = walking
        outside = outside[walking >= n]
    return values.astype(np.int64).reshape(positions.shape)


def _mix(values: NDArray[np.uint64], keys: list[tuple[int, int]], bits: int) -> None:
    """Permute ``0..2**bits - 1`` in place."""
    mask = np.uint64((1 << bits) - 1)
    # A product carries upward only; the fold brings its high half down to the low one.
    fold = np.uint64((bits + 1) // 2)
    for addend, factor in keys:
        values += np.uint64(addend)
        values *= np.uint64(factor)
        values &= mask
        values ^= values >> fold


def _seed_of(seed: int, loop: int) -> int:
    """The first loop's is the user's own; from it SplitMix64 makes those of the others."""
    return _splitmix(_splitmix(seed & _MASK_64) + loop) if loop else seed


def _round_keys(seed: int, epoch: int, bits: int) -> list[tuple[int, int]]:
    """Addend and odd factor of each round, from SplitMix64 over (seed, epoch)."""
    state = _splitmix(_splitmix(seed & _MASK_64) ^ (epoch & _MASK_64))
    mask = (1 << bits) - 1
    keys = []
    for _ in range(_NUM_ROUNDS):
        addend = state = _splitmix(state)
        factor = state = _splitmix(state)
        keys.append((addend & mask, factor & mask | 1))
    return keys


def _splitmix(state: int) -> int:
    """The next number behind ``state`` (Steele, Lea, Flood 2014)."""
    mixed = (state + 0x9E3779B97F4A7C15) & _MASK_64
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & _MASK_64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _MASK_64
    return mixed ^ (mixed >> 31)

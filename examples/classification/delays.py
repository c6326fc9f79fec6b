"""Three million flights as eight hashed ids each and a label: did it leave late?

A flight is its day, weekday and hour, where from and where to, and three pairs of these.
Each pair of a field and its value is hashed to one of `NUM_IDS` numbers, so there is no
dictionary, and no record but the one at hand is looked at. One in five was more than 15
minutes late. One in ten is held out, by a hash of its number.

Pure, but for `load`, which waits for the data set to be fetched and hashed, once.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.data.sets import sets

NUM_IDS = 1 << 20
NUM_FIELDS = 8
LATE_MINUTES = 15
_HELD_OUT = 10  # one in ten
_CACHE_NAME = "classification-flights-3m-1.npz"  # another encoding, another number

Ids = NDArray[np.int32]
Floats = NDArray[np.float32]


class Delays(NamedTuple):
    """Hashed ids ``(n, NUM_FIELDS)`` int32, and labels ``(n,)`` float32, 1 if late."""

    ids: Ids
    labels: Floats

    def take(self, chosen: NDArray[np.bool_]) -> "Delays":
        """The records where ``chosen`` is true."""
        return Delays(self.ids[chosen], self.labels[chosen])


def load(name: str = "flights") -> tuple[Delays, Delays]:
    """Train and test records, of all flights or of some that are made up.

    Args:
        name: ``flights``, or ``made-up``: 6,000 flights that need no file.
    """
    if name == "made-up":
        return held_out(made_up(6000))
    return held_out(Delays(**sets.wait_for_arrays(_CACHE_NAME, _make)))


def held_out(delays: Delays) -> tuple[Delays, Delays]:
    """What is learned from and what is not."""
    numbers = np.arange(len(delays.labels), dtype=np.uint64)
    is_test = _mixed(numbers) % np.uint64(_HELD_OUT) == 0
    return delays.take(~is_test), delays.take(is_test)


def hashed(columns: list[NDArray[np.int64]]) -> Ids:
    """Day, weekday, hour, origin and destination, and three pairs, as ids below `NUM_IDS`.

    Args:
        columns: these five, codes ``(n,)`` below 2^16 each.
    """
    _, _, hour, origin, destination = columns
    pairs = [(origin, destination), (origin, hour), (destination, hour)]
    values = [*columns, *(a << 16 | b for a, b in pairs)]
    ids = [
        _mixed(value.astype(np.uint64) | np.uint64(field << 40)) % np.uint64(NUM_IDS)
        for field, value in enumerate(values)
    ]
    return np.stack(ids, 1).astype(np.int32)


def made_up(count: int) -> Delays:
    """Flights whose lateness follows from the hour and from where they start."""
    draw = np.random.default_rng(3)
    columns = [draw.integers(0, top, count) for top in (30, 7, 24, 40, 40)]
    score = 0.2 * (columns[2] - 12) + draw.normal(0, 1, 40)[columns[3]]
    late = draw.random(count) < 1 / (1 + np.exp(-score))
    return Delays(hashed(columns), late.astype(np.float32))


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64: what comes out looks drawn by chance."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _make() -> dict[str, NDArray[np.generic]]:
    from pyarrow import compute as pc  # noqa: PLC0415  (an extra: only this set needs it)
    from pyarrow import parquet as pq  # noqa: PLC0415  (as above)

    table = pq.read_table(sets.wait_for_files("flights-3m")["flights-3m.parquet"])
    hours = table["date"].to_numpy().astype("datetime64[h]").astype(np.int64)
    places = pc.unique(table["origin"]).to_pylist()
    places = sorted({*places, *pc.unique(table["destination"]).to_pylist()})
    origin, destination = (
        np.searchsorted(places, table[name].to_numpy(zero_copy_only=False).astype(str))
        for name in ("origin", "destination")
    )
    days = hours // 24
    # 1 January 1970 was a Thursday, the fourth day of a week from Monday on.
    columns = [days - days.min(), (days + 3) % 7, hours % 24, origin, destination]
    late = table["delay"].to_numpy() > LATE_MINUTES
    return {"ids": hashed(columns), "labels": late.astype(np.float32)}

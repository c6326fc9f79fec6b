"""What time went into: trainers' time, and servers' load by slot.

::

    while a job runs    the last minute, by what processes have told of themselves
    once it has ended   its last run, by what its events have told of trainers, and by
                        servers' last words

Processes tell sums that only grow, from zero again when another takes a place; what is
shown is how much they have grown.

Pure: time is an argument.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, final

from paceline.messages.shared import SpentTime
from paceline.messages.waits import MOST_NAMED, listed
from paceline.messages.watching import ProcessStatus

SPAN_S = 60.0
EVERY_S = 5.0  # between two sums that are kept
MOST_SHOWN = 12  # trainers; of more, those that wait least, and the mean of all
MOST_CELLS = 64  # of a server; of more slots, neighbors are one
MOST_KEPT = 1000  # trainers and servers of a run that has ended

BYTES = {"gradient_bytes_sent": 0, "value_bytes_sent": 1}  # {counter of a part: place}

Sums = tuple[float, ...]


class MinuteSum(NamedTuple):
    """How much a sum has grown, in so many seconds."""

    grown: Sums
    lasted_s: float


@final
class LastMinute:
    """Sums by name, as they were within the last minute."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, dict[str, Sums]]] = deque()
        self._last: tuple[float, dict[str, Sums]] = (0.0, {})

    def note(self, sums: dict[str, Sums], now_s: float) -> None:
        """Take note of all that are there now."""
        self._last = (now_s, sums)
        if not self._kept or now_s - self._kept[-1][0] >= EVERY_S:
            self._kept.append(self._last)
        while len(self._kept) > 1 and now_s - self._kept[1][0] >= SPAN_S:
            self._kept.popleft()

    def of(self, name: str) -> MinuteSum | None:
        """How much one has grown; None until it has been seen twice."""
        now_s, sums = self._last
        then = next(((s, old[name]) for s, old in self._kept if name in old), None)
        if then is None or name not in sums or now_s <= then[0]:
            return None
        first_s, before = then
        new = sums[name]
        return MinuteSum(_growth(before, new), now_s - first_s)


@final
class WholeRun:
    """Sums of one run by name, as its events have told them."""

    def __init__(self, began_s: float = 0.0) -> None:
        """Nothing was told yet; the run has begun at ``began_s``."""
        self._began_s = began_s
        self._joined: dict[str, float] = {}  # servers, whose sums were zero then
        self._first: dict[str, float] = {}  # when each was first told
        self._told: dict[str, tuple[float, Sums, Sums]] = {}  # {name: (when, grown, sums)}

    def note_joined(self, server: str, at_s: float) -> None:
        """A server's sums are zero at this moment."""
        if server in self._joined or len(self._joined) < MOST_KEPT:
            self._joined[server] = at_s

    def note(self, sums: dict[str, Any], at_s: float) -> None:
        """Take note of some.

        Raises:
            TypeError, ValueError: these are no sums.
        """
        for name, told in sums.items():
            if name not in self._told and len(self._told) >= MOST_KEPT:
                continue
            new = tuple(map(float, told))
            if len(new) != len(SpentTime._fields):
                raise ValueError(f"expected {len(SpentTime._fields)} sums, got {told}")
            _, grown, before = self._told.get(name, (0.0, (0.0,) * len(new), new))
            self._first.setdefault(name, at_s)
            more = _growth(before, new)
            grown = tuple(g + m for g, m in zip(grown, more, strict=True))
            self._told[name] = (at_s, grown, new)

    @property
    def trainers(self) -> list[str]:
        """Those that have told what their time went into."""
        return list(self._told)

    def of(self, name: str) -> MinuteSum | None:
        """How much one has grown; None until it has been told twice."""
        if name not in self._told:
            return None
        last_s, grown, _ = self._told[name]
        lasted_s = last_s - self._first[name]
        return MinuteSum(grown, lasted_s) if lasted_s > 0 else None

    def times(self) -> dict[str, Any]:
        """As `Loads.times`, of the whole run."""
        shares = {name: found for name in self._told if (found := _shares(self.of(name)))}
        return _shown(shares) | {"is_whole": True}

    def servers(
        self, processes: Sequence[ProcessStatus], ended_s: float
    ) -> list[dict[str, Any]]:
        """As `Loads.servers`, by the last words of servers."""
        told = []
        for one in processes:
            lasted_s = ended_s - self._joined.get(one.id, self._began_s)
            if one.role != "server" or not one.load or lasted_s <= 0:
                continue
            cells = [[slot.slot, slot.busy_s / lasted_s, slot.longest] for slot in one.load]
            rates = tuple(number / lasted_s for number in bytes_of(one.counters))
            told.append(_as_server(one.id, cells, rates))
        return told


@final
class Loads:
    """What processes of a job have told of their time and their load."""

    def __init__(self) -> None:
        self._minute = LastMinute()
        self._longest: dict[str, deque[tuple[float, int]]] = {}  # {slot: as it was told}

    def note(self, processes: Sequence[ProcessStatus], now_s: float) -> None:
        """Take note of a status."""
        sums: dict[str, Sums] = {}
        for one in processes:
            if one.spent is not None:
                sums[one.id] = tuple(one.spent)
            if one.role != "server":
                continue
            sums[one.id] = bytes_of(one.counters)
            for slot in one.load:
                name = f"{one.id}/{slot.slot}"
                sums[name] = (slot.busy_s,)
                longest = self._longest.setdefault(name, deque())
                longest.append((now_s, slot.longest))
                while now_s - longest[0][0] > SPAN_S:
                    longest.popleft()
        self._minute.note(sums, now_s)
        self._longest = {
            name: self._longest[name] for name in self._longest if name in sums
        }

    def times(self, processes: Sequence[ProcessStatus]) -> dict[str, Any]:
        """Shares of each trainer's time: to read, to compute, for servers, for others.

        Of very many, those that wait least for others, who wait for them; with the mean of
        all. The shares of one are of its last minute, and add up to 1 unless its script did
        something else.
        """
        told = {one.id: self._minute.of(one.id) for one in processes if one.spent}
        return _shown({name: found for name in told if (found := _shares(told[name]))})

    def servers(self, processes: Sequence[ProcessStatus]) -> list[dict[str, Any]]:
        """For each server: its slots, with the share of time that they were busy.

        ``busy`` and ``longest`` are of the one that has most to do.
        """
        return [self._server(one) for one in processes if one.role == "server" and one.load]

    def _server(self, server: ProcessStatus) -> dict[str, Any]:
        cells = []
        for slot in server.load:
            name = f"{server.id}/{slot.slot}"
            told = self._minute.of(name)
            share = 0.0 if told is None else told.grown[0] / told.lasted_s
            longest = max((number for _, number in self._longest[name]), default=0)
            cells.append([slot.slot, share, longest])
        told = self._minute.of(server.id)
        rates = (0.0, 0.0) if told is None else tuple(n / told.lasted_s for n in told.grown)
        return _as_server(server.id, cells, rates)


def _growth(before: Sums, new: Sums) -> Sums:
    """How much sums have grown; all of them, if another process has begun at zero."""
    if any(b > n for b, n in zip(before, new, strict=True)):
        return new
    return tuple(n - b for b, n in zip(before, new, strict=True))


def _shares(told: MinuteSum | None) -> list[float]:
    """Of the time that has passed; empty if that is not known."""
    return [] if told is None else [round(s / told.lasted_s, 4) for s in told.grown]


def _shown(shares: dict[str, list[float]]) -> dict[str, Any]:
    """Those that are shown, how many there are, and the mean of all."""
    if not shares:
        return {"of": {}, "number": 0}
    shown, number = shares, len(shares)
    if number > MOST_SHOWN:
        order = sorted(shares, key=lambda name: shares[name][3])[:MOST_SHOWN]
        shown = {name: shares[name] for name in shares if name in order}
    columns = zip(*shares.values(), strict=True)
    mean = [round(sum(column) / number, 4) for column in columns]
    return {"of": shown, "number": number, "mean": mean}


def _as_server(name: str, cells: list[list[Any]], rates: Sequence[float]) -> dict[str, Any]:
    return {
        "id": name,
        "busy": round(max(share for _, share, _ in cells), 4),
        "longest": max(longest for _, _, longest in cells),
        "cells": _fewer(cells),
        "in_per_s": round(rates[0]),
        "out_per_s": round(rates[1]),
    }


def bytes_of(counters: dict[str, int]) -> tuple[float, float]:
    """Bytes of numbers that a server was sent, and has sent, of all parts."""
    found = [0, 0]
    for name, number in counters.items():
        place = BYTES.get(name.partition(".")[2])
        if place is not None:
            found[place] += number
    return found[0], found[1]


def _few(names: list[str]) -> str:
    return listed(names[:MOST_NAMED], len(names)) if names else ""


def _fewer(cells: list[list[Any]]) -> list[list[Any]]:
    """As many as are shown: of neighbors the one that has most to do."""
    many = -(-len(cells) // MOST_CELLS)
    groups = [cells[n : n + many] for n in range(0, len(cells), many)]
    return [
        [slot, round(share, 4), max(cell[2] for cell in group)]
        for group in groups
        for slot, share, _ in [max(group, key=lambda cell: cell[1])]
    ]


def hosts_of(processes: Sequence[ProcessStatus]) -> list[dict[str, Any]]:
    """Which roles are on which machine, if there are several; the first by name."""
    by_host: dict[str, list[ProcessStatus]] = {}
    for one in processes:
        if one.host:
            by_host.setdefault(one.host, []).append(one)
    if len(by_host) < 2:
        return []
    return [
        {
            "host": host,
            "others": _few([one.id for one in there if one.role != "trainer"]),
            "trainers": _few([one.id for one in there if one.role == "trainer"]),
            "waiting": sum(one.state == "waiting" for one in there),
        }
        for host, there in sorted(by_host.items())
    ]

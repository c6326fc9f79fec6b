"""The clock of the transport benchmark: the same for every candidate.

A candidate is a client whose server is another process that holds two arenas, a small and a
large one. Before anything is timed, random bytes are pushed and must come back by a pull.

    pull    the server's bytes lie in memory that the caller had before
    push    the caller's bytes lie in the server's arena, and the caller knows it

Only NumPy and the standard library: this runs in the peers' environments.
"""

import argparse
import json
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Plan(NamedTuple):
    """How much is carried, and how often."""

    small_bytes: int = 4 << 10
    large_bytes: int = 16 << 20
    small_trips: int = 2000
    large_trips: int = 50
    warm: float = 0.2  # trips before the clock, as a share


class Link(ABC):
    """The client's end of a candidate; arenas are numbered: 0 small, 1 large."""

    @abstractmethod
    def pull(self, arena: int, into: Bytes) -> None:
        """Fetch an arena's bytes into memory of the same size."""

    @abstractmethod
    def push(self, arena: int, values: Bytes) -> None:
        """Store bytes in an arena; they are there when this returns."""


def arenas(plan: Plan) -> list[Bytes]:
    """What a server holds, with every page touched."""
    return [np.ones(size, np.uint8) for size in (plan.small_bytes, plan.large_bytes)]


def measure(link: Link, plan: Plan, seed: int = 0) -> dict[str, float]:
    """Seconds of one trip: {what: the median of many, or processor time on average}.

    Raises:
        ValueError: what was pushed did not come back.
    """
    draw = np.random.default_rng(seed)
    sizes = (plan.small_bytes, plan.large_bytes)
    values = [draw.integers(0, 256, size, np.uint8) for size in sizes]
    landing = [np.ones(size, np.uint8) for size in sizes]
    for arena in (0, 1):
        link.push(arena, values[arena])
        link.pull(arena, landing[arena])
        if not np.array_equal(values[arena], landing[arena]):
            raise ValueError(f"{sizes[arena]} bytes were pushed, others came back")
    small = timed(lambda: link.pull(0, landing[0]), plan.small_trips, plan.warm)
    pull = timed(lambda: link.pull(1, landing[1]), plan.large_trips, plan.warm)
    push = timed(lambda: link.push(1, values[1]), plan.large_trips, plan.warm)
    return {
        "small pull": small.wall_s,
        "large pull": pull.wall_s,
        "large push": push.wall_s,
        "large pull, processor": pull.worked_s,
        "large push, processor": push.worked_s,
    }


class Timed(NamedTuple):
    """A trip: the median of its seconds, and this process's own for it on average."""

    wall_s: float
    worked_s: float


def timed(trip: Callable[[], object], trips: int, warm: float) -> Timed:
    """What a trip takes, after a share of them untimed."""
    for _ in range(max(1, round(trips * warm))):
        trip()
    seconds = []
    worked_s = time.process_time()
    for _ in range(trips):
        began_s = time.perf_counter()
        trip()
        seconds.append(time.perf_counter() - began_s)
    worked_s = time.process_time() - worked_s
    return Timed(statistics.median(seconds), worked_s / trips)


def read_flags(what: str) -> tuple[str, str, Plan, Path]:
    """A candidate's command line: its role, where the two meet, the plan, the result."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("role", choices=["client", "server"])
    parser.add_argument("--place", default="", help="where both meet: a folder, tcp:a:7")
    parser.add_argument("--plan", required=True, help="a Plan as JSON")
    parser.add_argument("--out", type=Path, required=True, help="the result, as JSON")
    flags = parser.parse_args()
    return flags.role, flags.place, Plan(**json.loads(flags.plan)), flags.out


def write_result(out: Path, seconds: dict[str, float]) -> None:
    """What a client leaves behind."""
    out.write_text(json.dumps(seconds), encoding="utf-8")

"""Models of ours beside scikit-learn with as many threads, and beside the plain loop alone.

Waits: for the peer, `LIMIT_S` at most.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.harness.environments import ONE_THREAD, one_thread, wait_python
from benchmarks.harness.figures import Figure, Kind, Ratio, compared
from benchmarks.harness.processes import wait_modules

LIMIT_S = 900.0
PEER = "scikit-learn"
FLOOR = "the plain loop alone"


class Candidate(NamedTuple):
    """Who is measured.

    Args:
        model: of ours; empty for the peer, and for the floor.
        number: trainers, or threads of the peer; 0: the floor.
        is_uneven: the second trainer is slower.
    """

    model: str
    number: int
    is_uneven: bool = False

    @property
    def who(self) -> str:
        """For people."""
        several = "s" if self.number > 1 else ""
        if not self.number:
            return FLOOR
        if not self.model:
            return f"{PEER}, {self.number} thread{several}"
        return f"{self.model}, {self.number} trainer{several}"

    @property
    def kind(self) -> Kind:
        """Of its figures."""
        return "ours" if self.model else "peer" if self.number else "floor"


class Took(Protocol):
    """A run: seconds of the clock, and of processors."""

    @property
    def seconds(self) -> float:
        """Of the clock."""

    @property
    def used_s(self) -> float:
        """Of all trainers, or of the peer's process."""


def candidates(models: Sequence[str], *, has_peer: bool) -> list[Candidate]:
    """All whose work is even, in the order in which they take turns."""
    peers = [Candidate("", threads) for threads in (1, 2)] if has_peer else []
    ours = [Candidate(model, trainers) for model in models for trainers in (1, 2)]
    return [Candidate("", 0), *peers, *ours]


def fit(
    one: Candidate, module: str, words: Iterable[object], place: Path
) -> tuple[dict[str, Any], Any]:
    """One fit of the peer, in a process of its environment with that many threads.

    Args:
        one: the candidate.
        module: below this room; it writes ``run.json`` and ``run.npy``.
        words: its command line, but for where it writes.
        place: a fresh folder.

    Returns:
        What it has written.
    """
    out = place / "run.json"
    environment = {**one_thread(), **dict.fromkeys(ONE_THREAD, str(one.number))}
    told = {"fit": ("fit", *map(str, words), "--out", str(out))}
    module = f"benchmarks.tables.{module}"
    wait_modules(wait_python(PEER), module, told, environment, place, LIMIT_S)
    found = json.loads(out.read_text(encoding="utf-8"))
    return found, np.load(out.with_suffix(".npy"))


def figures_of(
    runs: Mapping[Candidate, Sequence[Took]], what: Callable[[Candidate], str], used: str
) -> list[Figure]:
    """Milliseconds of everyone; of a processor, where work is even."""
    figures = []
    for one, found in runs.items():
        waited_ms = tuple(1000 * run.seconds for run in found)
        figures.append(Figure(what(one), one.who, one.kind, "ms", waited_ms))
        if not one.is_uneven:
            used_ms = tuple(1000 * run.used_s for run in found)
            figures.append(Figure(used, one.who, one.kind, "ms", used_ms))
    return figures


def ratios_of(
    figures: Sequence[Figure], what: str, goals: Mapping[int, str]
) -> list[Ratio]:
    """Ours against as many threads, and against the plain loop alone.

    Args:
        figures: all.
        what: has a goal.
        goals: {trainers: what is wanted}.
    """
    named = {(figure.what, figure.who): figure for figure in figures}
    ratios = []
    for figure in figures:
        floor = named.get((figure.what, FLOOR))
        if figure.kind != "ours" or floor is None:
            continue
        number = 2 if "2 trainers" in figure.who else 1
        if peer := named.get((figure.what, Candidate("", number).who)):
            goal = goals[number] if figure.what == what else ""
            ratios.append(compared(figure, peer, goal))
        ratios.append(compared(figure, floor))
    return ratios

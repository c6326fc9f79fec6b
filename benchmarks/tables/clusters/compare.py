"""k-means: every model beside the others, and beside scikit-learn's Lloyd.

::

    python -m benchmarks clusters [--times 5] [--data fashion-mnist] [--small]

Seconds of an iteration over all points: the same points, start and number of iterations;
one trainer against one thread, two against two. Then two trainers of whom one is four
times slower. Interleaved runs, each in processes of its own; compiling, reading and the
start are before the clock. Beside it the processor time of the same iterations, which says
more where others are at work: of all trainers together (not of server and coordinator).

Equality comes first: the inertia of everyone's last centroids, by one function of ours.
Ours must be the plain loop's to 1e-9, scikit-learn's (sums in float32) to 1e-4.

The floor is the plain loop: the kernel alone, in one process.

Exit status: 0; 1 if the inertias differ. A goal that is missed is told, and is no failure.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.harness.environments import ONE_THREAD, one_thread, versions, wait_python
from benchmarks.harness.figures import (
    Figure,
    Kind,
    Ratio,
    compared,
    figure_table,
    kept,
    ratio_table,
)
from benchmarks.harness.goals import wanted
from benchmarks.harness.processes import fork_server, job_config, wait_job, wait_modules
from benchmarks.harness.record import circumstances, say, write
from benchmarks.tables.clusters.floor import inertia_of, load_points, measure_floor
from benchmarks.tables.clusters.picture import draw_figures
from paceline.launch.job.commands import UserScript
from paceline.launch.processes.forkserver import ForkServer

SCRIPT = Path(__file__).with_name("job.py")
PEER = "scikit-learn"
LIMIT_S = 900.0
OURS_WITHIN, PEER_WITHIN = 1e-9, 1e-4
SLOWER = 4.0
UNEVEN_PARTS = 10
FREE = ("push-pull",)  # models in which nobody waits within an iteration
EVEN, UNEVEN = "k-means, an iteration", "k-means, an iteration, one of two 4x slower"
USED = "k-means, processor time of an iteration"
GOALS = {number: wanted(f"kmeans-{number}") for number in (1, 2)}


class Candidate(NamedTuple):
    """Who is measured.

    Args:
        model: of ours; empty for the peer, and for the floor.
        number: trainers, or threads of the peer; 0: the floor.
        is_uneven: the second trainer is `SLOWER` times slower.
    """

    model: str
    number: int
    is_uneven: bool = False

    @property
    def who(self) -> str:
        """For people."""
        if not self.number:
            return "the kernel alone"
        several = "s" if self.number > 1 else ""
        if not self.model:
            return f"{PEER}, {self.number} thread{several}"
        return f"{self.model}, {self.number} trainer{several}"


class Plan(NamedTuple):
    """What everyone is to do."""

    data: str
    k: int
    iterations: int
    seed: int


class Run(NamedTuple):
    """One run.

    Args:
        seconds: of an iteration.
        used_s: processor time of an iteration: of all trainers, or of the peer's process.
        inertia: of the last centroids.
    """

    seconds: float
    used_s: float
    inertia: float


def candidates(models: Sequence[str], *, has_peer: bool) -> list[Candidate]:
    """All, in the order in which they take turns."""
    peers = [Candidate("", threads) for threads in (1, 2)] if has_peer else []
    ours = [Candidate(model, trainers) for model in models for trainers in (1, 2)]
    uneven = [Candidate(model, 2, is_uneven=True) for model in models]
    return [Candidate("", 0), *peers, *ours, *uneven]


def run_ours(chosen: Candidate, plan: Plan, folder: Path, forks: ForkServer) -> Run:
    """One job; its time is from its first iteration known to its last."""
    out = folder / "run.npz"
    words = [str(folder), str(SLOWER if chosen.is_uneven else 1), "0"]
    words += ["--model", chosen.model, "--data", plan.data, "--k", str(plan.k)]
    # Even shares; where a batch is anyone's, smaller ones beside a slow trainer, so that
    # the quick one gets more.
    is_cut = chosen.is_uneven and chosen.model in FREE
    parts = UNEVEN_PARTS if is_cut else chosen.number
    words += ["--iterations", str(plan.iterations), "--parts", str(parts)]
    words += ["--seed", str(plan.seed), "--out", str(out)]
    config = job_config("async", chosen.number)
    script = UserScript(str(SCRIPT), tuple(words))
    wait_job(forks, config, script, one_thread(), folder)
    with np.load(out) as found:
        seconds, centroids = found["seconds"], found["centroids"]
    spans = len(seconds) - 1
    used_s = sum(float(file.read_text()) for file in folder.glob("*.processor_s"))
    waited_s = float(seconds[-1] - seconds[0])
    return Run(waited_s / spans, used_s / spans, inertia_of(plan.data, centroids))


def run_peer(chosen: Candidate, plan: Plan, folder: Path, python: Path) -> Run:
    """One process of scikit-learn, with that many threads."""
    out, points, start = folder / "run.json", folder / "points.npy", folder / "start.npy"
    pixels, begins = load_points(plan.data, plan.k, plan.seed)
    np.save(points, pixels)
    np.save(start, begins)
    words = ("fit", "--points", str(points), "--start", str(start), "--out", str(out))
    threads = dict.fromkeys(ONE_THREAD, str(chosen.number))
    wait_modules(
        python,
        "benchmarks.tables.clusters.with_scikit",
        {"fit": (*words, "--iterations", str(plan.iterations))},
        {**one_thread(), **threads},
        folder,
        LIMIT_S,
    )
    found = json.loads(out.read_text(encoding="utf-8"))
    inertia = inertia_of(plan.data, np.load(out.with_suffix(".npy")))
    return Run(found["seconds"], found["used_s"], inertia)


def measure(
    times: int, plan: Plan, chosen: Sequence[Candidate], folder: Path, forks: ForkServer
) -> dict[Candidate, list[Run]]:
    """Interleaved runs of everyone."""
    has_peer = any(one.number and not one.model for one in chosen)
    python = wait_python(PEER) if has_peer else Path(sys.executable)
    runs: dict[Candidate, list[Run]] = {one: [] for one in chosen}
    for again in range(times):
        for number, one in enumerate(chosen):
            place = folder / f"{again}-{number}"
            place.mkdir()
            if not one.number:
                run = Run(*measure_floor(plan.data, plan.k, plan.seed, plan.iterations))
            elif one.model:
                run = run_ours(one, plan, place, forks)
            else:
                run = run_peer(one, plan, place, python)
            runs[one].append(run)
            uneven = ", one slower" if one.is_uneven else ""
            say(
                f"{again + 1}/{times}  {one.who}{uneven}: {1000 * run.seconds:.1f} ms, "
                f"{1000 * run.used_s:.1f} of a processor"
            )
    return runs


def equality(runs: Mapping[Candidate, Sequence[Run]]) -> tuple[bool, str]:
    """Whether all came to the inertia of the plain loop, and how far they are from it."""
    [floor] = {run.inertia for run in runs[Candidate("", 0)]}
    gaps = {
        one: max(abs(run.inertia / floor - 1) for run in found)
        for one, found in runs.items()
    }
    ours = max(gap for one, gap in gaps.items() if one.model)
    peers = [gap for one, gap in gaps.items() if one.number and not one.model]
    told = f"inertia {floor:,.0f}; ours differ by {ours:.1e} of it at most"
    if peers:
        told += f", {PEER}'s by {max(peers):.1e}"
    return ours <= OURS_WITHIN and max(peers, default=0.0) <= PEER_WITHIN, told


def figures_of(runs: Mapping[Candidate, Sequence[Run]]) -> list[Figure]:
    """Milliseconds of an iteration, of everyone; of a processor, where work is even."""
    figures = []
    for one, found in runs.items():
        kind: Kind = "ours" if one.model else "peer" if one.number else "floor"
        waited = tuple(1000 * run.seconds for run in found)
        used = tuple(1000 * run.used_s for run in found)
        what = UNEVEN if one.is_uneven else EVEN
        figures.append(Figure(what, one.who, kind, "ms", waited))
        if not one.is_uneven:
            figures.append(Figure(USED, one.who, kind, "ms", used))
    return figures


def ratios_of(figures: Sequence[Figure]) -> list[Ratio]:
    """Ours against as many threads, and against the kernel alone; the uneven ones, too."""
    named = {(figure.what, figure.who): figure for figure in figures}
    ratios = []
    for figure in figures:
        if figure.kind != "ours":
            continue
        number = 2 if "2 trainers" in figure.who else 1
        peer = named.get((figure.what, Candidate("", number).who))
        if figure.what == UNEVEN:
            ratios.append(compared(figure, named[EVEN, figure.who]._replace(what=UNEVEN)))
            continue
        if peer is not None:
            goal = GOALS[number] if figure.what == EVEN else None
            ratios.append(compared(figure, peer, goal))
        ratios.append(compared(figure, named[figure.what, Candidate("", 0).who]))
    return ratios


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks clusters", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="runs of each candidate")
    parser.add_argument("--models", default="push-pull")
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--seed", type=int, default=6, help="of the start")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--picture", type=Path, default=None, help="a PNG to draw")
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)  # before the load is our own
    plan = Plan(flags.data, flags.k, flags.iterations, flags.seed)
    chosen = candidates(flags.models.split(","), has_peer=not flags.no_peer)
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as name,
        fork_server(Path(name) / "forks", 1) as forks,
    ):
        runs = measure(flags.times, plan, chosen, Path(name), forks)
    is_equal, told = equality(runs)
    figures = figures_of(runs)
    ratios = ratios_of(figures)
    print(f"{told}\n\n{figure_table(figures)}\n\n{ratio_table(ratios)}")
    record = {
        **where,
        "plan": plan._asdict(),
        "peers": {} if flags.no_peer else {PEER: versions(PEER)},
        **kept(figures, ratios, told, is_equal=is_equal),
    }
    print(f"\n{write('clusters', record)}")
    if flags.picture is not None:
        draw_figures(flags.picture, figures)
    return 0 if is_equal else 1

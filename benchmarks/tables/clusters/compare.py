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
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.harness.bench import TIMES, Found, Run, bench, flags_of, opt
from benchmarks.harness.environments import versions
from benchmarks.harness.figures import Figure, Ratio, compared
from benchmarks.harness.page import draw
from benchmarks.harness.processes import job_config
from benchmarks.tables import beside
from benchmarks.tables.beside import PEER, Candidate, fit
from benchmarks.tables.clusters.floor import inertia_of, load_points, measure_floor

SCRIPT = Path(__file__).with_name("job.py")
OURS_WITHIN, PEER_WITHIN = 1e-9, 1e-4
SLOWER = 4.0
UNEVEN_PARTS = 10
FREE = ("push-pull",)  # models in which nobody waits within an iteration
EVEN, UNEVEN = "k-means, an iteration", "k-means, an iteration, one of two 4x slower"
USED = "k-means, processor time of an iteration"
GOALS = {number: f"kmeans-{number}" for number in (1, 2)}


class Plan(NamedTuple):
    """What everyone is to do."""

    data: str
    k: int
    iterations: int
    seed: int


class Lloyd(NamedTuple):
    """One run.

    Args:
        seconds: of an iteration.
        used_s: processor time of an iteration: of all trainers, or of the peer's process.
        inertia: of the last centroids.
    """

    seconds: float
    used_s: float
    inertia: float


def run_ours(chosen: Candidate, plan: Plan, place: Path, run: Run) -> Lloyd:
    """One job; its time is from its first iteration known to its last."""
    out = place / "run.npz"
    # Even shares; where a batch is anyone's, smaller ones beside a slow trainer, so that
    # the quick one gets more.
    is_cut = chosen.is_uneven and chosen.model in FREE
    parts = UNEVEN_PARTS if is_cut else chosen.number
    flags = flags_of(model=chosen.model, parts=parts, out=out, **plan._asdict())
    words = (place, SLOWER if chosen.is_uneven else 1, *flags)
    run.job(SCRIPT, words, place, job_config("async", chosen.number))
    with np.load(out) as found:
        seconds, centroids = found["seconds"], found["centroids"]
    spans = len(seconds) - 1
    used_s = sum(float(file.read_text()) for file in place.glob("*.processor_s"))
    waited_s = float(seconds[-1] - seconds[0])
    return Lloyd(waited_s / spans, used_s / spans, inertia_of(plan.data, centroids))


def run_peer(chosen: Candidate, plan: Plan, place: Path) -> Lloyd:
    """One process of scikit-learn, with that many threads."""
    points, start = place / "points.npy", place / "start.npy"
    pixels, begins = load_points(plan.data, plan.k, plan.seed)
    np.save(points, pixels)
    np.save(start, begins)
    words = flags_of(points=points, start=start, iterations=plan.iterations)
    found, centroids = fit(chosen, "clusters.with_scikit", words, place)
    return Lloyd(found["seconds"], found["used_s"], inertia_of(plan.data, centroids))


def equality(runs: Mapping[Candidate, Sequence[Lloyd]]) -> tuple[bool, str]:
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


def candidates(models: Sequence[str], *, has_peer: bool) -> list[Candidate]:
    """All, in the order in which they take turns."""
    uneven = [Candidate(model, 2, is_uneven=True) for model in models]
    return [*beside.candidates(models, has_peer=has_peer), *uneven]


def figures_of(runs: Mapping[Candidate, Sequence[Lloyd]]) -> list[Figure]:
    """Milliseconds of an iteration, of everyone."""
    return beside.figures_of(runs, lambda one: UNEVEN if one.is_uneven else EVEN, USED)


def ratios_of(figures: Sequence[Figure]) -> list[Ratio]:
    """Ours against as many threads and the plain loop; uneven ones against even ones."""
    even = {figure.who: figure for figure in figures if figure.what == EVEN}
    uneven = [figure for figure in figures if figure.what == UNEVEN]
    slower = [compared(one, even[one.who]._replace(what=UNEVEN)) for one in uneven]
    return [*beside.ratios_of(figures, EVEN, GOALS), *slower]


@bench(
    "clusters",
    TIMES,
    opt("models", ("push-pull",)),
    opt("data", "fashion-mnist"),
    opt("k", 10),
    opt("iterations", 30),
    opt("seed", 6, "of the start"),
    opt("no-peer", False),
    opt("picture", None, "an SVG to draw", kind=Path),
)
def main(run: Run) -> Found:
    """Measure everyone."""
    flags = run.flags
    plan = Plan(flags.data, flags.k, flags.iterations, flags.seed)

    def once(one: Candidate, place: Path) -> Lloyd:
        if not one.number:
            return Lloyd(*measure_floor(plan.data, plan.k, plan.seed, plan.iterations))
        return run_ours(one, plan, place, run) if one.model else run_peer(one, plan, place)

    def told(one: Candidate, found: Lloyd) -> str:
        who = f"{one.who}{', one slower' if one.is_uneven else ''}"
        used = f"{1000 * found.used_s:.1f} of a processor"
        return f"{who}: {1000 * found.seconds:.1f} ms, {used}"

    chosen = candidates(flags.models, has_peer=not flags.no_peer)
    runs = run.interleaved(chosen, once, told)
    is_equal, words = equality(runs)
    figures = figures_of(runs)
    if flags.picture is not None:
        draw([figure for figure in figures if figure.what == USED], flags.picture)
    peers = {} if flags.no_peer else {PEER: versions(PEER)}
    more = {"plan": plan._asdict(), "peers": peers}
    return Found(figures, ratios_of(figures), words, is_equal, more=more)

"""Matrix factorisation on a table against factorisers of C++ and Cython, to the same error.

::

    python -m benchmarks factorisation [--times 5] [--data movielens,generated]

Stochastic gradient descent on the same ratings, with as many factors and the same penalty,
until the same error on what was held out. One trainer is against one thread, two against
two; a job has a server and a coordinator beside its trainers, each another process.

* LIBMF scales its steps by row and has no biases: on generated ratings, which have some,
  it gets two factors more for them. Its rate is the best of 0.05, 0.1, 0.2, 0.4.
* scikit-surprise has our rule; its rate is ours, the best of 0.02, 0.03, 0.04, 0.05.
* The floor is our loop over the ratings alone.

Peers say their error only when they are done: they are fitted for the fewest epochs that
reach the target. Ours finds them by looks, in a job that is not timed, and then looks only
when they are over. Neither has process starts, imports, reading of the data, or compiling
in it, which stands apart.

Runs are interleaved, each in processes of its own.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.harness.bench import TIMES, Found, Run, bench, flags_of, opt, result
from benchmarks.harness.environments import one_thread, versions, wait_python
from benchmarks.harness.figures import Figure, Ratio, compared
from benchmarks.harness.processes import job_config, wait_modules
from benchmarks.harness.record import ROOT, say
from benchmarks.tables.factorisation.job import Told, write_split

# On the path since the import above.
from plain import Settings  # isort: skip
from ratings import Split, generated, movielens  # isort: skip

SCRIPT = ROOT / "benchmarks" / "tables" / "factorisation" / "job.py"
PINS = "factorisation"
# LIBMF as its authors build it for speed; its package names none of these by itself.
BUILT_WITH = "-O3 -march=native -ffast-math -DUSEAVX -DUSEOMP -fopenmp"
LIMIT_S = 300.0  # of a run
PEER_S = 120.0  # LIBMF with two threads hangs now and then
PER_TRAINER = 2  # blocks: one is computed, one travels


class Case(NamedTuple):
    """Ratings, and how all learn from them.

    Args:
        name: in words.
        target: error on what is held out.
        settings: ours.
        batch_size: ours, where rows come and go.
        libmf: its factors and its rate.
        has_surprise: whether it is in the race: it takes too long on many ratings.
    """

    name: str
    target: float
    settings: Settings
    batch_size: int
    libmf: tuple[int, float]
    has_surprise: bool


def cases(names: Sequence[str]) -> Iterator[tuple[Case, Split]]:
    """The wanted ones."""
    if "movielens" in names:
        settings = Settings(k=16, rate=0.04, penalty=0.1)
        yield Case("MovieLens-100K", 0.915, settings, 22_500, (16, 0.2), True), movielens()
    if "generated" in names:
        split = generated(6000, 3000, 4_000_000, factors=8, noise=0.5)
        assert split.floor is not None
        settings = Settings(k=8, rate=0.03, penalty=0.01, decay=0.6)
        name, target = "4,000,000 ratings, generated", 1.02 * split.floor
        yield Case(name, target, settings, 131_072, (10, 0.1), False), split


class Race(NamedTuple):
    """One case, and where its files lie."""

    case: Case
    data: Path
    python: Path
    run: Run

    def told(self, model: str, trainers: int, out: Path, look_from: int = 1) -> Told:
        """What a trainer of ours does."""
        return Told(
            data=str(self.data),
            out=str(out),
            model=model,
            settings=tuple(self.case.settings),
            target=self.case.target,
            batch_size=self.case.batch_size,
            blocks=PER_TRAINER * trainers,
            look_from=look_from,
        )

    def ours(
        self, model: str, trainers: int, place: Path, look_from: int = 1
    ) -> tuple[float, int]:
        """Seconds of one job of ours, and its epochs."""
        told = self.told(model, trainers, place / "result.json", look_from)
        words = (msgspec.json.encode(told).decode(),)
        self.run.job(SCRIPT, words, place, job_config("sync", trainers=trainers))
        seen = result(place)
        reached = [(s, n) for s, n, error in seen if error <= self.case.target]
        return min(reached, default=(float("inf"), look_from))

    def peer(self, name: str, threads: int, place: Path) -> float:
        """Seconds of one fit of a peer."""
        case = self.case
        k, rate = case.libmf if name == "libmf" else (case.settings.k, case.settings.rate)
        words = flags_of(
            data=self.data,
            out=place / "result.json",
            target=case.target,
            k=k,
            threads=threads,
            rate=rate,
            penalty=case.settings.penalty,
        )
        environment = {**one_thread(), "OMP_NUM_THREADS": str(threads)}
        module = "benchmarks.tables.factorisation.peers"
        arguments = {name: (name, *words)}
        for last in (False, False, True):
            try:
                wait_modules(self.python, module, arguments, environment, place, PEER_S)
            except RuntimeError as failed:
                if last:
                    raise
                say(f"{name}, once more: {failed}")
            else:
                break
        return float(result(place)["seconds"])

    def alone(self, place: Path) -> dict[str, float]:
        """Our loops without a job; compiled anew."""
        told = msgspec.json.encode(self.told("no-sync", 1, place / "result.json")).decode()
        environment = {**one_thread(), "NUMBA_CACHE_DIR": str(place / "numba")}
        module = "benchmarks.tables.factorisation.alone"
        arguments = {"alone": (told,)}
        python = Path(sys.executable)
        wait_modules(python, module, arguments, environment, place, LIMIT_S)
        found: dict[str, float] = result(place)
        return found


def figures_of(race: Race, times: int, models: Sequence[str]) -> list[Figure]:
    """Interleaved runs of all candidates of a case."""
    case = race.case
    found: dict[tuple[str, str, str], list[float]] = {}
    epochs: dict[tuple[str, int], int] = {}  # {(model, trainers): to the target}

    def note(what: str, who: str, kind: str, seconds: float) -> None:
        found.setdefault((f"{case.name}, {what}", who, kind), []).append(seconds)
        say(f"{case.name}, {what}, {who}: {seconds:.3f} s")

    place = race.run.place
    for again in range(times):
        alone = race.alone(place())
        note("compiling, once", "all loops", "ours", alone["compiling_s"])
        for threads in (1, 2):
            what = f"{threads} against {threads}"
            note(what, "our loop alone, one thread", "floor", alone["floor_s"])
            for model in models:
                if not again:
                    epochs[model, threads] = race.ours(model, threads, place())[1]
                of = epochs[model, threads]
                seconds = race.ours(model, threads, place(), of)[0]
                note(what, f"paceline, {model}", "ours", seconds)
            seconds = race.peer("libmf", threads, place())
            note(what, "LIBMF", "peer", seconds)
            if threads == 1:
                note(what, "a plain loop of ours", "peer", alone["plain_s"])
            if threads == 1 and case.has_surprise:
                seconds = race.peer("surprise", 1, place())
                note(what, "scikit-surprise", "peer", seconds)
    return [
        Figure(what, who, kind, "s", tuple(values))  # type: ignore[arg-type]  # one of three
        for (what, who, kind), values in found.items()
    ]


def ratios_of(figures: Sequence[Figure]) -> list[Ratio]:
    """Ours against peers and floor: how many times as fast.

    Of the best of ours half of LIBMF's speed is wanted.
    """
    best: dict[str, Figure] = {}  # {what: the fastest of ours}
    for figure in sorted((f for f in figures if f.kind == "ours"), key=lambda f: f.median):
        best.setdefault(figure.what, figure)
    ratios = []
    for ours in figures:
        for other in figures:
            if ours.kind != "ours" or other.kind == "ours" or ours.what != other.what:
                continue
            is_aimed = other.who == "LIBMF" and ours is best[ours.what]
            goal = f"libmf-{ours.what[-1]}" if is_aimed else ""
            ratios.append(compared(ours, other, goal))
    return ratios


@bench(
    "factorisation",
    TIMES,
    opt("data", ("movielens", "generated")),
    opt("models", ("rotation", "no-sync", "push-pull", "locking")),
)
def main(run: Run) -> Found:
    """Measure everyone on each set of ratings."""
    os.environ |= {"CFLAGS": BUILT_WITH, "LDFLAGS": "-fopenmp"}
    python, figures, told = wait_python(PINS), list[Figure](), list[str]()
    for case, split in cases(run.flags.data):
        data = run.place() / "ratings.npz"
        write_split(split, data)
        race = Race(case, data, python, run)
        figures += figures_of(race, run.flags.times, run.flags.models)
        told.append(f"{case.name}: held-out RMSE {case.target:.4f}, {case.settings}")
    is_reached = all(value < LIMIT_S for figure in figures for value in figure.values)
    more = {"peers": {PINS: versions(PINS)}, "built_with": BUILT_WITH}
    return Found(figures, ratios_of(figures), "; ".join(told), is_reached, more=more)

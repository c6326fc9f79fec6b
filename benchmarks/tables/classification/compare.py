"""Logistic regression until a loss: ours beside scikit-learn's.

::

    python -m benchmarks classification [--times 5] [--data digits] [--small]

Seconds until the mean loss with its penalty is where so many iterations of the plain loop
bring it: the same records, penalty and loss; one trainer against one thread, two against
two. scikit-learn goes there by L-BFGS and ours by accelerated gradient, so it needs fewer
iterations: what counts is the time. Interleaved runs, each in processes of its own;
reading and imports are before the clock. Beside it the processor time: of all trainers
together (not of server and coordinator).

Equality comes first: the loss of everyone's weights, by one function of ours. None may be
above the aim by more than 1e-9 of it, and ours is the plain loop's.

The floor is the plain loop, in one process.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.harness.bench import TIMES, Found, Run, bench, flags_of, opt
from benchmarks.harness.environments import versions
from benchmarks.harness.figures import Figure, Ratio
from benchmarks.harness.processes import job_config
from benchmarks.tables import beside
from benchmarks.tables.beside import PEER, Candidate, candidates, fit
from benchmarks.tables.classification.floor import Aim, aim, load_records, loss_of

SCRIPT = Path(__file__).with_name("job.py")
FLOOR = SCRIPT.with_name("floor.py")
DATA = ("digits", "fashion-mnist", "drawn")  # of two classes it penalizes otherwise
WITHIN = 1e-9
UNTIL = "logistic regression, until a loss"
USED = "logistic regression, processor time"
GOALS = {number: f"logistic-{number}" for number in (1, 2)}


class Plan(NamedTuple):
    """What everyone is to do."""

    data: str
    seed: int
    ridge: float
    iterations: int

    @property
    def aim(self) -> Aim:
        """When everybody is done."""
        return aim(*self)


class Fitted(NamedTuple):
    """One run.

    Args:
        seconds: until the loss.
        used_s: processor time: of all trainers, or of the peer's process.
        loss: of the last weights.
        iterations: that it took.
    """

    seconds: float
    used_s: float
    loss: float
    iterations: int


Moments = Sequence[tuple[float, float, float]]  # seconds, processor time, loss


def run_of(moments: Sequence[Moments], loss: float) -> Fitted:
    """A run of ours, of what each trainer noted: from the first gradient to the loss.

    The first moment of each is its first gradient. Who knows the loss first has it for all.

    Raises:
        RuntimeError: no trainer came to the loss.
    """
    began_s = min(noted[0][0] for noted in moments)
    ends = [
        next((n for n, moment in enumerate(noted) if moment[2] <= loss), None)
        for noted in moments
    ]
    known = [
        (noted[end][0], noted[end][2])
        for noted, end in zip(moments, ends, strict=True)
        if end is not None
    ]
    if not known:
        least = min(moment[2] for noted in moments for moment in noted)
        raise RuntimeError(f"no trainer came to the loss {loss:.9g}, but to {least:.9g}")
    ended_s, found = min(known)
    # Who has joined late has not noted them all.
    iterations = max(end - 1 for end in ends if end is not None)
    used_s = sum(
        noted[end if end is not None else -1][1] - noted[0][1]
        for noted, end in zip(moments, ends, strict=True)
    )
    return Fitted(ended_s - began_s, used_s, found, iterations)


def run_floor(plan: Plan, place: Path, run: Run) -> Fitted:
    """The plain loop, in a process with one thread."""
    out, aimed = place / "run.json", plan.aim.iterations
    told = {"data": plan.data, "seed": plan.seed, "ridge": plan.ridge}
    words = flags_of(**told, iterations=aimed, out=out)
    run.script(FLOOR, place, words)
    seconds, used_s, loss = json.loads(out.read_text(encoding="utf-8"))
    return Fitted(seconds, used_s, loss, aimed)


def run_ours(chosen: Candidate, plan: Plan, place: Path, run: Run) -> Fitted:
    """One job."""
    told = plan._asdict() | {"iterations": plan.aim.iterations + 1}
    words = (place, *flags_of(model=chosen.model, parts=chosen.number, **told))
    run.job(SCRIPT, words, place, job_config("async", chosen.number))
    moments = [json.loads(file.read_text()) for file in place.glob("*.moments")]
    return run_of([noted for noted in moments if noted], plan.aim.loss * (1 + WITHIN))


def run_peer(chosen: Candidate, plan: Plan, place: Path, iterations: int) -> Fitted:
    """One process of scikit-learn, with that many threads."""
    data = place / "records.npz"
    np.savez(data, **load_records(plan.data, plan.seed)._asdict())
    words = flags_of(records=data, ridge=plan.ridge, iterations=iterations)
    words += ["--loss", repr(plan.aim.loss)]
    found, weights = fit(chosen, "classification.with_scikit", words, place)
    loss = loss_of(plan.data, plan.seed, plan.ridge, weights)
    return Fitted(found["seconds"], found["used_s"], loss, found["iterations"])


def equality(runs: Mapping[Candidate, Sequence[Fitted]], loss: float) -> tuple[bool, str]:
    """Whether everyone came to the loss, and by how much the worst is above it."""
    worst = max(run.loss / loss - 1 for found in runs.values() for run in found)
    takes = ", ".join(f"{one.who} {found[0].iterations}" for one, found in runs.items())
    told = f"loss {loss:.9g}; the worst is above it by {max(worst, 0):.1g} of it"
    return worst <= WITHIN, f"{told}. Iterations: {takes}."


def figures_of(runs: Mapping[Candidate, Sequence[Fitted]]) -> list[Figure]:
    """Milliseconds until the loss, of everyone."""
    return beside.figures_of(runs, lambda _: UNTIL, USED)


def ratios_of(figures: Sequence[Figure]) -> list[Ratio]:
    """Ours against as many threads, and against the plain loop."""
    return beside.ratios_of(figures, UNTIL, GOALS)


@bench(
    "classification",
    TIMES,
    opt("models", ("push-pull", "allreduce")),
    opt("data", "fashion-mnist", choices=DATA),
    opt("iterations", 100, "of the plain loop"),
    opt("ridge", 1e-3),
    opt("seed", 0, "of the split"),
    opt("no-peer", False),
    opt("small", False, "to see that it runs"),
)
def main(run: Run) -> Found:
    """Measure everyone; the peer looks for its iterations once."""
    flags = run.flags
    plan = Plan(flags.data, flags.seed, flags.ridge, flags.iterations)
    if flags.small:
        plan, flags.times = plan._replace(data="drawn", iterations=20), 1
    iterations: dict[Candidate, int] = {}

    def once(one: Candidate, place: Path) -> Fitted:
        if not one.number:
            return run_floor(plan, place, run)
        if one.model:
            return run_ours(one, plan, place, run)
        found = run_peer(one, plan, place, iterations.get(one, 0))
        iterations[one] = found.iterations
        return found

    def told(one: Candidate, found: Fitted) -> str:
        took = f"{1000 * found.seconds:.1f} ms, {1000 * found.used_s:.1f} of a processor"
        return f"{one.who}: {took}, {found.iterations} iterations"

    chosen = candidates(flags.models, has_peer=not flags.no_peer)
    runs = run.interleaved(chosen, once, told)
    is_equal, words = equality(runs, plan.aim.loss)
    figures = figures_of(runs)
    peers = {} if flags.no_peer else {PEER: versions(PEER)}
    more = {"plan": plan._asdict(), "peers": peers}
    return Found(figures, ratios_of(figures), words, is_equal, more=more)

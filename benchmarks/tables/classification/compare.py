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

Exit status: 0; 1 if somebody is above the aim. A goal that is missed is told, and is no
failure.
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
from benchmarks.tables.classification.floor import (
    Aim,
    aim,
    load_records,
    loss_of,
)
from paceline.launch.job.commands import UserScript
from paceline.launch.processes.forkserver import ForkServer

SCRIPT = Path(__file__).with_name("job.py")
PEER = "scikit-learn"
DATA = ("digits", "fashion-mnist", "drawn")  # of two classes it penalizes otherwise
LIMIT_S = 900.0
WITHIN = 1e-9
UNTIL = "logistic regression, until a loss"
USED = "logistic regression, processor time"
GOALS = {number: wanted(f"logistic-{number}") for number in (1, 2)}


class Candidate(NamedTuple):
    """Who is measured.

    Args:
        model: of ours; empty for the peer, and for the floor.
        number: trainers, or threads of the peer; 0: the floor.
    """

    model: str
    number: int

    @property
    def who(self) -> str:
        """For people."""
        if not self.number:
            return "the gradient alone"
        several = "s" if self.number > 1 else ""
        if not self.model:
            return f"{PEER}, {self.number} thread{several}"
        return f"{self.model}, {self.number} trainer{several}"


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


class Run(NamedTuple):
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


def candidates(models: Sequence[str], *, has_peer: bool) -> list[Candidate]:
    """All, in the order in which they take turns."""
    peers = [Candidate("", threads) for threads in (1, 2)] if has_peer else []
    ours = [Candidate(model, trainers) for model in models for trainers in (1, 2)]
    return [Candidate("", 0), *peers, *ours]


def run_of(moments: Sequence[Moments], loss: float) -> Run:
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
    return Run(ended_s - began_s, used_s, found, iterations)


def run_floor(plan: Plan, folder: Path) -> Run:
    """The plain loop, in a process with one thread."""
    out, aimed = folder / "run.json", plan.aim.iterations
    words = ("--data", plan.data, "--seed", str(plan.seed), "--ridge", str(plan.ridge))
    wait_modules(
        Path(sys.executable),
        "benchmarks.tables.classification.floor",
        {"floor": (*words, "--iterations", str(aimed), "--out", str(out))},
        one_thread(),
        folder,
        LIMIT_S,
    )
    return Run(*json.loads(out.read_text(encoding="utf-8")), aimed)


def run_ours(chosen: Candidate, plan: Plan, folder: Path, forks: ForkServer) -> Run:
    """One job."""
    words = [str(folder), "--model", chosen.model, "--data", plan.data]
    words += ["--iterations", str(plan.aim.iterations + 1), "--ridge", str(plan.ridge)]
    words += ["--parts", str(chosen.number), "--seed", str(plan.seed)]
    config = job_config("async", chosen.number)
    script = UserScript(str(SCRIPT), tuple(words))
    wait_job(forks, config, script, one_thread(), folder)
    moments = [json.loads(file.read_text()) for file in folder.glob("*.moments")]
    return run_of([noted for noted in moments if noted], plan.aim.loss * (1 + WITHIN))


def run_peer(
    chosen: Candidate, plan: Plan, folder: Path, python: Path, iterations: int
) -> Run:
    """One process of scikit-learn, with that many threads."""
    out, data = folder / "run.json", folder / "records.npz"
    np.savez(data, **load_records(plan.data, plan.seed)._asdict())
    words = ("fit", "--records", str(data), "--ridge", str(plan.ridge), "--out", str(out))
    aimed = ("--loss", repr(plan.aim.loss), "--iterations", str(iterations))
    threads = dict.fromkeys(ONE_THREAD, str(chosen.number))
    wait_modules(
        python,
        "benchmarks.tables.classification.with_scikit",
        {"fit": (*words, *aimed)},
        {**one_thread(), **threads},
        folder,
        LIMIT_S,
    )
    found = json.loads(out.read_text(encoding="utf-8"))
    loss = loss_of(plan.data, plan.seed, plan.ridge, np.load(out.with_suffix(".npy")))
    return Run(found["seconds"], found["used_s"], loss, found["iterations"])


def measure(
    times: int, plan: Plan, chosen: Sequence[Candidate], folder: Path, forks: ForkServer
) -> dict[Candidate, list[Run]]:
    """Interleaved runs of everyone; the peer looks for its iterations once."""
    has_peer = any(one.number and not one.model for one in chosen)
    python = wait_python(PEER) if has_peer else Path(sys.executable)
    runs: dict[Candidate, list[Run]] = {one: [] for one in chosen}
    for again in range(times):
        for number, one in enumerate(chosen):
            place = folder / f"{again}-{number}"
            place.mkdir()
            if not one.number:
                run = run_floor(plan, place)
            elif one.model:
                run = run_ours(one, plan, place, forks)
            else:
                known = runs[one][0].iterations if runs[one] else 0
                run = run_peer(one, plan, place, python, known)
            runs[one].append(run)
            say(
                f"{again + 1}/{times}  {one.who}: {1000 * run.seconds:.1f} ms, "
                f"{1000 * run.used_s:.1f} of a processor, {run.iterations} iterations"
            )
    return runs


def equality(runs: Mapping[Candidate, Sequence[Run]], loss: float) -> tuple[bool, str]:
    """Whether everyone came to the loss, and by how much the worst is above it."""
    worst = max(run.loss / loss - 1 for found in runs.values() for run in found)
    takes = ", ".join(f"{one.who} {found[0].iterations}" for one, found in runs.items())
    told = f"loss {loss:.9g}; the worst is above it by {max(worst, 0):.1g} of it"
    return worst <= WITHIN, f"{told}. Iterations: {takes}."


def figures_of(runs: Mapping[Candidate, Sequence[Run]]) -> list[Figure]:
    """Milliseconds until the loss, of a clock and of a processor."""
    figures = []
    for one, found in runs.items():
        kind: Kind = "ours" if one.model else "peer" if one.number else "floor"
        waited = tuple(1000 * run.seconds for run in found)
        used = tuple(1000 * run.used_s for run in found)
        figures.append(Figure(UNTIL, one.who, kind, "ms", waited))
        figures.append(Figure(USED, one.who, kind, "ms", used))
    return figures


def ratios_of(figures: Sequence[Figure]) -> list[Ratio]:
    """Ours against as many threads, and against the gradient alone."""
    named = {(figure.what, figure.who): figure for figure in figures}
    ratios = []
    for figure in figures:
        if figure.kind != "ours":
            continue
        number = 2 if "2 trainers" in figure.who else 1
        peer = named.get((figure.what, Candidate("", number).who))
        if peer is not None:
            goal = GOALS[number] if figure.what == UNTIL else None
            ratios.append(compared(figure, peer, goal))
        ratios.append(compared(figure, named[figure.what, Candidate("", 0).who]))
    return ratios


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks classification", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="runs of each candidate")
    parser.add_argument("--models", default="push-pull,allreduce")
    parser.add_argument("--data", choices=DATA, default="fashion-mnist")
    parser.add_argument("--iterations", type=int, default=100, help="of the plain loop")
    parser.add_argument("--ridge", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--small", action="store_true", help="to see that it runs")
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)  # before the load is our own
    plan = Plan(flags.data, flags.seed, flags.ridge, flags.iterations)
    if flags.small:
        plan, flags.times = plan._replace(data="drawn", iterations=20), 1
    chosen = candidates(flags.models.split(","), has_peer=not flags.no_peer)
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as name,
        fork_server(Path(name) / "forks", 1) as forks,
    ):
        runs = measure(flags.times, plan, chosen, Path(name), forks)
    is_equal, told = equality(runs, plan.aim.loss)
    figures = figures_of(runs)
    ratios = ratios_of(figures)
    print(f"{told}\n\n{figure_table(figures)}\n\n{ratio_table(ratios)}")
    record = {
        **where,
        "plan": plan._asdict(),
        "peers": {} if flags.no_peer else {PEER: versions(PEER)},
        **kept(figures, ratios, told, is_equal=is_equal),
    }
    print(f"\n{write('classification', record)}")
    return 0 if is_equal else 1

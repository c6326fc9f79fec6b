"""Time to the same loss beside stragglers: what a pace gains over lockstep.

::

    python -m benchmarks.pace.stragglers
    python -m benchmarks.pace.stragglers --times 1 --rates 0.01,0.02

Four trainers that sleep, so that cores do not matter. Either every step takes four times as
long with probability 0.2, or one trainer's steps always do. The learning rate of each pace
is tuned on one grid, the same for all; what counts is the time until the held-out loss is
`TARGET`, and stays below it, as one trainer sees it from the first batch on.

Exit status: 0; 1 if lockstep itself never came to that loss.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.environments import one_thread
from benchmarks.figures import Figure, Ratio, figure_table, judged, kept, ratio_table
from benchmarks.goals import wanted
from benchmarks.processes import ROOT, fork_server, job_config, wait_job
from benchmarks.record import circumstances, say, write
from paceline.launch.commands import UserScript
from paceline.launch.forkserver import ForkServer

SCRIPT = ROOT / "benchmarks" / "pace" / "regression.py"
TRAINERS = 4
TARGET = 0.02  # held-out loss; 0.01 is the noise of the labels
RATES = (0.01, 0.02, 0.05, 0.1, 0.2)
CASES = {  # {words: (sleep, {goal: pace})}
    "every fifth step 4 times slower": ("straggler:0.02,4,0.2", {"ssp": "ssp:3"}),
    "one of four 4 times slower for ever": (
        "slow:0.02,4,1",
        {"backup": "sync:backup=1"},
    ),
}
LOCKSTEP = "sync"


def seconds_to(trace: Sequence[tuple[float, float]], target: float) -> float | None:
    """When a loss came to a target and stayed there; None if it did not.

    Args:
        trace: (seconds, loss), in order.
        target: the loss.
    """
    reached = None
    for seconds, loss in trace:
        if loss > target:
            reached = None
        elif reached is None:
            reached = seconds
    return reached


def run_once(pace: str, sleep: str, rate: float, seed: int, forks: ForkServer) -> float:
    """Seconds to the target; infinite if a job never comes to it."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as name:
        folder = Path(name)
        words = (sleep, str(seed), str(rate), str(folder / "trace.json"))
        config = job_config(pace, trainers=TRAINERS, seed=seed)
        wait_job(forks, config, UserScript(str(SCRIPT), words), one_thread(), folder)
        trace = json.loads((folder / "trace.json").read_text())
    reached = seconds_to([(t, loss) for t, loss in trace], TARGET)
    return float("inf") if reached is None else reached


def tuned(
    pace: str, sleep: str, rates: Sequence[float], times: int, forks: ForkServer
) -> tuple[float, list[float]]:
    """The best rate of a grid for a pace, and the seconds of its run with each seed."""
    first = {rate: run_once(pace, sleep, rate, 0, forks) for rate in rates}
    best = min(first, key=lambda rate: first[rate])
    told = ", ".join(f"{rate:g}: {seconds:.1f} s" for rate, seconds in first.items())
    say(f"{pace}, {sleep}: {told}; {best:g} is best")
    others = [run_once(pace, sleep, best, seed, forks) for seed in range(1, times)]
    return best, [first[best], *others]


def figures_of(found: Mapping[str, list[float]], case: str) -> list[Figure]:
    """Seconds to the target, one figure for each pace."""
    what = f"seconds to a loss, {case}"
    return [
        Figure(what, pace, "peer" if pace == LOCKSTEP else "ours", "s", tuple(seconds))
        for pace, seconds in found.items()
    ]


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks.pace.stragglers", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="seeds of the best rate")
    parser.add_argument("--rates", default=",".join(map(str, RATES)))
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)
    rates = [float(rate) for rate in flags.rates.split(",")]
    figures: list[Figure] = []
    ratios: list[Ratio] = []
    is_reached = True
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as name,
        fork_server(Path(name) / "forks", 1) as forks,
    ):
        for case, (sleep, goals) in CASES.items():
            found: dict[str, list[float]] = {}
            for pace in (LOCKSTEP, *goals.values()):
                _, found[pace] = tuned(pace, sleep, rates, flags.times, forks)
            is_reached &= statistics.median(found[LOCKSTEP]) < float("inf")
            here = figures_of(found, case)
            figures += here
            by_pace = {figure.who: figure for figure in here}
            for goal, pace in goals.items():
                share = by_pace[pace].median / by_pace[LOCKSTEP].median
                ratio = judged(by_pace[pace], wanted(goal), share)
                ratios.append(ratio._replace(against=LOCKSTEP))
    told = f"held-out loss {TARGET:g}, rates {flags.rates}"
    print(f"{told}\n\n{figure_table(figures)}\n\n{ratio_table(ratios)}")
    record = {**where, **kept(figures, ratios, told, is_equal=is_reached)}
    print(f"\n{write('paces', record)}")
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))

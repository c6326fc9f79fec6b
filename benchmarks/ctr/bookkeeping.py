"""What the journal and exactly-once bookkeeping cost: the CTR job with them and without.

::

    python -m benchmarks bookkeeping [--times 5]

The job of `benchmarks ctr`, one trainer and one server, `async`. Without: the coordinator
writes no journal and servers do not look at windows (`ctr.bookkeeping_off`); all
else, every message too, is the same. Runs are interleaved, each in processes of its own,
and held-out losses are compared first. On a machine that others use as well, rates differ
by more than 3 % from run to run; the processor time of all processes of the job, which is
compared too, differs less.

Exit status: 0; 1 if the losses differ. A goal that is missed is told, and is no failure.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.ctr import compare as ctr
from benchmarks.ctr.loops import Plan
from benchmarks.harness.figures import (
    Figure,
    Profile,
    compared,
    figure_table,
    kept,
    profile_table,
    ratio_table,
)
from benchmarks.harness.goals import wanted
from benchmarks.harness.processes import fork_server
from benchmarks.harness.record import circumstances, say, spread, write
from paceline.launch.processes.forkserver import ForkServer

WITH, WITHOUT = "with", "without"
OFF = "benchmarks.ctr.bookkeeping_off_now"

Runs = Mapping[str, Sequence[ctr.Run]]  # {with or without: runs}


def measure(
    times: int, plan: Plan, folder: Path, forks: Mapping[str, ForkServer]
) -> dict[str, list[ctr.Run]]:
    """Interleaved runs of both."""
    data = folder / "data.npz"
    trained = (plan.warm + plan.timed) * plan.batch
    records = ctr.draw_records(trained + ctr.HELD_OUT, 0, plan.ids)
    np.savez(data, ids=records["ids"], labels=records["labels"])
    runs: dict[str, list[ctr.Run]] = {WITH: [], WITHOUT: []}
    for again in range(times):
        # Whoever is first finds the machine as the other left it: they take turns.
        for side in (WITH, WITHOUT) if again % 2 == 0 else (WITHOUT, WITH):
            place = folder / f"{side}-{again}"
            place.mkdir()
            run = ctr.run_once(ctr.OURS, plan, data, place, forks[side])
            runs[side].append(run)
            say(f"{again + 1}/{times}  {side}: {run.rate:,.0f} records/s")
    return runs


def compare_losses(runs: Runs) -> tuple[bool, str]:
    """Whether both have learned the same, and what."""
    losses = {
        side: spread([run.loss for run in found]).median for side, found in runs.items()
    }
    is_equal = abs(losses[WITH] / losses[WITHOUT] - 1) <= ctr.LOSS_WITHIN
    told = f"held-out loss {losses[WITH]:.4f} with, {losses[WITHOUT]:.4f} without"
    return is_equal, told


def figures_of(runs: Runs) -> list[Figure]:
    """Records per second, then processor time; without bookkeeping is the floor."""
    measures: tuple[tuple[str, Callable[[ctr.Run], float], bool], ...] = (
        ("records/s", lambda run: run.rate, True),
        ("ms of all processors, of a step", lambda run: sum(run.cpu_ms.values()), False),
    )
    return [
        Figure(
            "journal and exactly-once" if is_more_better else "their processor time",
            f"paceline, {side}",
            "ours" if side == WITH else "floor",
            unit,
            tuple(map(measure_of, found)),
            is_more_better,
        )
        for unit, measure_of, is_more_better in measures
        for side, found in runs.items()
    ]


def profiles_of(runs: Runs) -> list[Profile]:
    """What each process spends on a step, with and without: the median of the runs."""
    return [
        Profile(
            f"processor time of a step, {side}",
            "ms",
            {
                role: statistics.median(run.cpu_ms[role] for run in found)
                for role in found[0].cpu_ms
            },
        )
        for side, found in runs.items()
    ]


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks bookkeeping", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="runs of each side")
    parser.add_argument("--warm", type=int, default=40, help="steps before the clock")
    parser.add_argument("--steps", type=int, default=200, help="steps that are timed")
    parser.add_argument("--ids", type=int, default=ctr.IDS)
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)  # before the load is our own
    plan = Plan(
        flags.ids,
        ctr.BATCH,
        flags.warm,
        flags.steps,
        "adam",
        task_batches=ctr.TASK_BATCHES,
    )
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as name,
        fork_server(Path(name) / "forks", 1) as whole,
        fork_server(Path(name) / "forks-off", 1, [OFF]) as bare,
    ):
        sides = {WITH: whole, WITHOUT: bare}
        runs = measure(flags.times, plan, Path(name), sides)
    is_equal, told = compare_losses(runs)
    figures = figures_of(runs)
    rate, bare_rate, spent, bare_spent = figures
    ratios = [compared(rate, bare_rate, wanted("journal")), compared(spent, bare_spent)]
    print(told if is_equal else f"{told}\nNOT EQUAL: the rates below mean nothing")
    print(f"\n{figure_table(figures)}\n\n{ratio_table(ratios)}")
    profiles = profiles_of(runs)
    print("\n".join(f"\n{profile_table(profile)}" for profile in profiles))
    found = kept(figures, ratios, told, is_equal=is_equal, profiles=profiles)
    print(f"\n{write('bookkeeping', {**where, 'plan': plan._asdict(), **found})}")
    return 0 if is_equal else 1

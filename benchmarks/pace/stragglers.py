"""Time to the same loss beside stragglers: what a pace gains over lockstep.

::

    python -m benchmarks paces
    python -m benchmarks paces --times 1 --momentum 0

Four real trainers and a server learn to read digits (`pace.reading`), in batches
that sleep, so that cores do not matter. Either every step takes four times as long with
probability 0.2, or one trainer's steps always do. What counts is the time until the
held-out loss, a mean of some looks, is that of `benchmarks.pace.dial.tuning`, as one
trainer sees it from its first batch on.

The learning rate of each pace is the best of one grid, the same for all. It is found in
virtual time, with the same network, images and rule (`benchmarks dial`), over three
seeds; the seconds forecast there stand beside those of the real job, as a floor.

Waits: for the jobs.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.harness.bench import Found, Run, bench, opt
from benchmarks.harness.figures import Figure, Kind, Ratio, judged
from benchmarks.harness.processes import job_config
from benchmarks.harness.record import ROOT, say
from benchmarks.pace.dial.replay import Rule
from benchmarks.pace.dial.tuning import BATCH, MOMENTUM, TARGET, Place, Tuned, grid, tune

SCRIPT = ROOT / "benchmarks" / "pace" / "reading.py"
PRELOADED = "benchmarks.pace.dial.tuning"
TRAINERS, EPOCHS = 4, 8
GUARDED = "async:scale=1"  # a step is divided by its age
LOCKSTEP, JUDGE = "sync", TRAINERS - 1  # who looks is never slow for ever
BATCHES, TUNED_OVER = 4_000, 3  # in virtual time: at most so many; seeds


class Case(NamedTuple):
    """What is slow, and who is to be how much faster than lockstep.

    Args:
        what: in words.
        sleep: how long batches take.
        goals: {goal: pace}.
        beside: other paces, without a goal.
    """

    what: str
    sleep: str
    goals: dict[str, str]
    beside: tuple[str, ...] = ()


CASES = (
    Case(
        "every fifth step 4 times slower",
        "straggler:0.05,4,0.2",
        {"ssp": "ssp:3"},
        ("async",),
    ),
    Case(
        "one of four 4 times slower for ever",
        "slow:0.05,4,1",
        {"backup": "sync:backup=1", "guarded": GUARDED},
        ("async",),
    ),
)


class Trained(NamedTuple):
    """One job: when its loss was reached, and how many records a second it trained."""

    seconds: float
    records_per_s: float


def seconds_to(trace: Sequence[tuple[float, float]], target: float) -> float:
    """When a loss first was at most a target; infinite if it never was.

    Args:
        trace: (seconds, loss), in order.
        target: the loss.
    """
    return next((seconds for seconds, loss in trace if loss <= target), math.inf)


def figures_of(
    case: Case, runs: Mapping[str, list[Trained]], tuned: Mapping[str, Tuned]
) -> list[Figure]:
    """Seconds to the target and records a second of each pace, and what was forecast."""
    seconds, rate = f"seconds to a loss, {case.what}", f"records/s, {case.what}"
    figures = []
    for pace, found in runs.items():
        kind: Kind = "peer" if pace == LOCKSTEP else "ours"
        forecast = tuple(one.seconds for one in tuned[pace].seeds)
        figures += [
            Figure(seconds, pace, kind, "s", tuple(run.seconds for run in found)),
            Figure(seconds, f"{pace}, in virtual time", "floor", "s", forecast),
            Figure(
                rate,
                pace,
                kind,
                "records/s",
                tuple(run.records_per_s for run in found),
                is_more_better=True,
            ),
        ]
    return sorted(figures, key=lambda figure: figure.what != seconds)


def ratios_of(case: Case, figures: Sequence[Figure]) -> list[Ratio]:
    """Seconds of each pace against lockstep's, those with a goal judged."""
    by_pace = {figure.who: figure for figure in figures if figure.unit == "s"}
    lockstep, ratios = by_pace[LOCKSTEP].median, []
    goal_of = {pace: goal for goal, pace in case.goals.items()}
    for pace in (*case.goals.values(), *case.beside):
        if pace not in by_pace:
            continue
        found = by_pace[pace]
        share = found.median / lockstep
        if pace in goal_of:
            ratios.append(judged(found, goal_of[pace], share, LOCKSTEP))
        else:
            ratios.append(Ratio(found.what, pace, LOCKSTEP, share))
    return ratios


def run_once(
    pace: str, sleep: str, rule: tuple[float, float], seed: int, run: Run
) -> Trained:
    """Train once, in processes of its own; ``rule`` is learning rate and momentum."""
    place = run.place()
    words = (sleep, seed, *rule, EPOCHS, JUDGE, place / "trace.json")
    config = job_config(pace, trainers=TRAINERS, seed=seed)
    summary = run.job(SCRIPT, words, place, config, preloaded=(PRELOADED,))
    trace = json.loads((place / "trace.json").read_text())
    return Trained(seconds_to(trace, TARGET), summary.records / trace[-1][0])


@bench("paces", opt("times", 5, "seeds"), opt("momentum", MOMENTUM))
def main(run: Run) -> Found:
    """Find the best rate of each pace in virtual time, and run it for real."""
    figures, ratios, told_rates = list[Figure](), list[Ratio](), list[str]()
    momentum = run.flags.momentum
    rates = grid(momentum)
    for case in CASES:
        runs: dict[str, list[Trained]] = {}
        tuned: dict[str, Tuned] = {}
        for pace in (LOCKSTEP, *case.goals.values(), *case.beside):
            place, rule = Place(TRAINERS, case.sleep), Rule(rates, momentum)
            best = tuned[pace] = tune(place, pace, BATCHES, TUNED_OVER, rule)
            edge = "" if best.is_inside else ", an end of the grid"
            told_rates.append(f"{best.rate:.3g}{edge} for {pace} where {case.what}")
            say(f"{told_rates[-1]}: {best.median('seconds'):.1f} s in virtual time")
            runs[pace] = [
                run_once(pace, case.sleep, (best.rate, momentum), seed, run)
                for seed in range(run.flags.times)
            ]
            say(f"{pace}: {', '.join(f'{one.seconds:.1f} s' for one in runs[pace])}")
        here = figures_of(case, runs, tuned)
        figures += here
        ratios += ratios_of(case, here)
    is_reached = all(v < math.inf for f in figures for v in f.values if f.unit == "s")
    told = (
        f"Batches of {BATCH}, held-out loss {TARGET:g}, momentum {momentum:g}; the "
        f"best of learning rates from {rates[0]:.3g} to {rates[-1]:.3g}, each the root of "
        f"2 times the one before: {'; '.join(told_rates)}"
    )
    return Found(figures, ratios, told, is_reached)

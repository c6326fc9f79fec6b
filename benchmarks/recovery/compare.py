"""How long a job stands still when one of its processes is killed.

::

    python -m benchmarks recovery [--times 20]      --times 3 to try it out

========================================  ===========================================
figure                                    from kill -9 to
========================================  ===========================================
others' longest stall (async, sync)       the longest gap between two steps of any
                                          other trainer, in the seconds after
work leased again                         the killed trainer's task is somebody's
coordinator with 100,000 tasks            a new process has read a journal of so many
                                          leases and answers
server with 100 MB                        a step is over on the new timeline; in MB, what
                                          the cut holds
========================================  ===========================================

Real processes, forked and started again as `paceline run` does. Medians and worst cases
stand beside what is wanted; all goes to ``build/bench``.

Exit status: 0, also where a figure is worse than wanted; 1 if one could not be measured.
"""

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.harness.bench import Found, Run, bench, opt
from benchmarks.harness.figures import Figure, Ratio, judged
from benchmarks.harness.goals import Goal, wanted
from benchmarks.harness.record import say
from benchmarks.recovery.coordinator import wait_coordinator_times
from benchmarks.recovery.kills import Killed, KillPlan, wait_killed
from benchmarks.recovery.times import leased_again, stall, trains_again

WATCHED_S = 3.0  # after a kill
QUIET_S = 1.0  # before it, to compare
TASKS = 100_000
ROWS, DIM = 400_000, 32  # 51 MB of values, and as much of Adagrad's state


class Times(NamedTuple):
    """What was measured, and what is wanted of the median; None: it is there to compare."""

    name: str
    goal: Goal | None
    seconds: list[float]


def trainer_figures(pace: str, killed: Killed) -> list[Times]:
    """What the deaths of trainers cost the others."""
    quiet = [stall(killed.steps, k.role, k.moment - QUIET_S, QUIET_S) for k in killed.kills]
    stalls = [stall(killed.steps, k.role, k.moment, WATCHED_S) for k in killed.kills]
    leases = [leased_again(killed.events, k.role, k.moment) for k in killed.kills]
    return [
        Times(f"{pace}: longest gap before a kill", None, known(quiet)),
        Times(f"{pace}: others' longest stall", wanted(f"stall-{pace}"), known(stalls)),
        Times(f"{pace}: work leased again", wanted("leased-again"), known(leases)),
    ]


def known(values: Sequence[float | None]) -> list[float]:
    """Without those that could not be measured."""
    return [value for value in values if value is not None]


def wait_figures(run: Run) -> list[Times]:
    """Measure everything, one job after the other."""
    figures: list[Times] = []
    times, tasks, folder = run.flags.times, run.flags.tasks, run.folder
    forks = run.forks()
    for pace in ("async", "sync"):
        say(f"{pace}: {times} trainers are killed")
        victims = ("trainer-0", "trainer-1", "trainer-2")
        plan = KillPlan(pace, victims, times, trainers=3)
        figures += trainer_figures(pace, wait_killed(plan, folder / pace, forks))
    say(f"a coordinator with {tasks:,} tasks is killed {times} times")
    seconds = wait_coordinator_times(times, tasks, folder / "coordinator", forks)
    name = f"coordinator with {tasks:,} tasks answers again"
    figures.append(Times(name, wanted("coordinator"), seconds))
    say(f"a server with 100 MB is killed {times} times")
    arguments = ("--rows", str(ROWS), "--dim", str(DIM))
    plan = KillPlan("async", ("server-0",), times, trainers=1, arguments=arguments)
    killed = wait_killed(plan, folder / "server", forks)
    moments = [moment for steps in killed.steps.values() for moment in steps]
    again = [trains_again(killed.events, moments, k.moment) for k in killed.kills]
    name = f"server with {killed.cut_bytes / 1e6:.0f} MB: a step at the cut"
    figures.append(Times(name, wanted("server"), known(again)))
    return figures


def for_page(figures: Sequence[Times]) -> tuple[list[Figure], list[Ratio]]:
    """The same as all benchmarks keep it."""
    measured = [figure for figure in figures if figure.seconds]
    found = [Figure(f.name, "paceline", "ours", "s", tuple(f.seconds)) for f in measured]
    ratios = [
        judged(one, f.goal)
        for f, one in zip(measured, found, strict=True)
        if f.goal is not None
    ]
    return found, ratios


@bench(
    "recovery",
    opt("times", 20, "kills for each figure"),
    opt("tasks", TASKS, "in the journal"),
)
def main(run: Run) -> Found:
    """Measure everything."""
    figures = wait_figures(run)
    found, ratios = for_page(figures)
    is_whole = all(figure.seconds for figure in figures)
    told = "every figure was measured" if is_whole else "not every figure was measured"
    return Found(found, ratios, told, is_whole)

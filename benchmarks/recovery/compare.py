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

Beside them stands what was measured once of torchrun, which this program does not run.

Real processes, forked and started again as `paceline run` does. Medians and worst cases
stand beside what is wanted; all goes to ``build/bench``.
"""

from collections.abc import Iterable

from benchmarks.harness.bench import Found, Run, bench, opt
from benchmarks.harness.figures import Figure, judged
from benchmarks.harness.record import say
from benchmarks.recovery.coordinator import wait_coordinator_times
from benchmarks.recovery.kills import Killed, KillPlan, wait_killed
from benchmarks.recovery.times import leased_again, stall, trains_again

WATCHED_S = 3.0  # after a kill
QUIET_S = 1.0  # before it, to compare
TASKS = 100_000
TORCHRUN = Figure("one of two agents is killed", "torchrun", "peer", "s", (17.5,))
OF_TORCHRUN = (
    "torchrun's was measured once, by hand, on two cores with torch 2.13 (gloo, "
    "`--nnodes=1:2`, `last_call_timeout=2`): one of two agents and its process "
    "were killed, and 17.5 s after the last step of both the other agent's new process "
    "began, at step 0"
)
ROWS, DIM = 400_000, 32  # 51 MB of values, and as much of Adagrad's state


Timed = tuple[Figure, str]  # and its goal's name; empty: it is there to compare


def timed(what: str, seconds: Iterable[float | None], goal: str = "") -> Timed:
    """Seconds without those that could not be measured."""
    known = tuple(value for value in seconds if value is not None)
    return Figure(what, "paceline", "ours", "s", known), goal


def trainer_figures(pace: str, killed: Killed) -> list[Timed]:
    """What the deaths of trainers cost the others."""
    quiet = [stall(killed.steps, k.role, k.moment - QUIET_S, QUIET_S) for k in killed.kills]
    stalls = [stall(killed.steps, k.role, k.moment, WATCHED_S) for k in killed.kills]
    leases = [leased_again(killed.events, k.role, k.moment) for k in killed.kills]
    return [
        timed(f"{pace}: longest gap before a kill", quiet),
        timed(f"{pace}: others' longest stall", stalls, f"stall-{pace}"),
        timed(f"{pace}: work leased again", leases, "leased-again"),
    ]


def wait_figures(run: Run) -> list[Timed]:
    """Measure everything, one job after the other."""
    figures: list[Timed] = []
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
    figures.append(timed(name, seconds, "coordinator"))
    say(f"a server with 100 MB is killed {times} times")
    arguments = ("--rows", str(ROWS), "--dim", str(DIM))
    plan = KillPlan("async", ("server-0",), times, trainers=1, arguments=arguments)
    killed = wait_killed(plan, folder / "server", forks)
    moments = [moment for steps in killed.steps.values() for moment in steps]
    again = [trains_again(killed.events, moments, k.moment) for k in killed.kills]
    name = f"server with {killed.cut_bytes / 1e6:.0f} MB: a step at the cut"
    figures.append(timed(name, again, "server"))
    return figures


@bench(
    "recovery",
    opt("times", 20, "kills for each figure"),
    opt("tasks", TASKS, "in the journal"),
)
def main(run: Run) -> Found:
    """Measure everything."""
    found = wait_figures(run)
    figures = [figure for figure, _ in found if figure.values]
    ratios = [judged(figure, goal) for figure, goal in found if goal and figure.values]
    is_whole = len(figures) == len(found)
    told = "every figure was measured" if is_whole else "not every figure was measured"
    return Found([*figures, TORCHRUN], ratios, f"{told}; {OF_TORCHRUN}", is_whole)

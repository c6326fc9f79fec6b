"""What `optimizer.step()` costs by itself: a step with nothing to compute.

::

    python -m benchmarks step_cost [--times 5] [--paces sync] [--models dense]
    python -m benchmarks step_cost --before ../other --pairs 10    against another checkout

`nn.Linear(4, 1)`, four numbers of a row, or both, batches of 8 under SGD, one thread: in an
embedded job and in one of processes (one trainer, one server). `--models clicks` is the
network of `ctr` and its 26 fields, `--models digits` that of `dense`; `tensors` has 161
of a ResNet-50's shapes, small, under SGD with momentum, which torch has fused; `lookups`
the rows of `clicks` alone, under Adam and `SparseAdam`; `--models logistic,logistic512,
factors,factors512,pictures,language` are small jobs as people run them. Blocks of
steps take turns with those of the same plain loop in the same process, which has batches
from a `DataLoader` and must have learned the same (`async:pull=2` is a batch behind, and
is not compared).

Told of a step: wall time and the plain loop's, of that the `DataLoader`'s, by how much ours
is over it, `step()` alone, processor time by role and the plain loop's, how
often processes sleep, and read or write files (no other system calls, and no sockets, are
counted); records of the journal and events, of the whole job by its steps. Messages are the
trainer's, with their replies, in one more run that is not timed; there, a profile of the
thread of the script says which rooms have most of its time.

Beside processor time stands each process's memory after the last step, what several
share divided among them, and at most since the model was shared. An embedded job is one
process; the trainer's holds the data of all steps and the plain loop, too.

Floors are measured between the runs, each alone (`step_cost_floors`): forward and backward,
the kernels that change the numbers, an empty round trip, a record appended to the journal.
Beside them stands all of a step done by hand, in a loop that asks nobody.

Pairs: each checkout's processes have its own `src` and `benchmarks`, but this one's loop.
They take turns, case by case; each pair is one ratio. Roles with less than a twentieth of
the processor time are left out. Launchers are not measured.

Exit status: 0; 1 if models differ, or if a median of the pairs is above `AT_MOST`.
"""

import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.dense.step_cost_models import MODELS as ALL_MODELS
from benchmarks.dense.step_cost_serve import Case
from benchmarks.dense.step_cost_serve import Found as Trained
from benchmarks.harness.bench import Found, Run, bench, flags_of, opt, result
from benchmarks.harness.figures import Figure, Ratio, compared, judged, number
from benchmarks.harness.record import ROOT, say, spread, table, write

SERVE = Path(__file__).with_name("step_cost_serve.py")
FLOORS = Path(__file__).with_name("step_cost_floors.py")
PLACES, PACES = ("embedded", "run"), ("sync", "async", "async:pull=2")
MODELS = ("dense", "rows", "both")
JOBS = ("logistic", "logistic512", "factors", "factors512", "pictures", "language")
ASKED = ("tensors", "lookups", "clicks", "digits", *JOBS)  # where they are asked for
ROLES = ("trainer", "server", "coordinator")
LOSS_WITHIN = 1e-4
AT_MOST = 1.02  # times what it was before
LEAST_SHARE = 0.05
LONG_US = 1200.0  # a plain step of which ours is to be a share; else so much above it
GOALS = {  # {place, pace, model: goal}, of how far a step is over the plain loop's
    ("embedded", "sync", "dense"): "over-embedded",
    ("embedded", "async", "dense"): "over-embedded",
    ("run", "sync", "dense"): "over-sync",
    ("run", "async", "dense"): "over-async",
    ("run", "async:pull=2", "dense"): "over-pull-2",
    ("embedded", "sync", "tensors"): "over-embedded-tensors",
    ("run", "sync", "tensors"): "over-sync-tensors",
}
LARGEST = 7  # items of a profile
OF_MODEL = ("computing", "kernels", "by hand")  # floors; the others are of no model
COUNTS = ("messages", "reads and writes", "sleeps", "journal records", "events")
TABLES = {  # {title: {what of a step: how it is headed}}
    "a step, us": {
        name: name.removesuffix(" us")
        for name in ("us", "plain us", "loader us", "over", "step()", *OF_MODEL)
    },
    "processors us, MiB": {
        "plain cpu us": "plain",
        **{
            f"{role}{name}": head
            for role in ROLES
            for name, head in (("", role), (" now", "now"), (" most", "max"))
        },
    },
    "of a step": {n: n for n in COUNTS},
}


Ask = Callable[..., Trained]  # runs a case: `ask(case, is_counted=False)`


@contextlib.contextmanager
def checkout(root: Path) -> Iterator[Ask]:
    """Runs with the packages of a checkout, until the end."""
    path = os.pathsep.join([str(root / "src"), str(root)])
    child = subprocess.Popen(
        [sys.executable, "-P", str(SERVE)],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(case: Case, *, is_counted: bool = False) -> Trained:
        assert child.stdin is not None
        assert child.stdout is not None
        print(json.dumps([case, is_counted]), file=child.stdin, flush=True)
        if not (line := child.stdout.readline()):
            raise RuntimeError(f"{case}: it failed with {root}, as said above")
        found: Trained = json.loads(line)
        if not Path(found["paceline"]).is_relative_to(root / "src"):
            raise RuntimeError(f"expected paceline of {root}, got {found['paceline']}")
        return found

    with child:  # closes its input, and waits
        yield ask


Floors = dict[str, list[dict[str, float]]]  # {model: {which: us} of each run}


def measure(
    cases: Sequence[Case], run: Run, ask: Ask
) -> tuple[dict[Case, list[Trained]], Floors]:
    """Interleaved runs; the last of each case has counted messages, and is not timed."""
    runs: dict[Case, list[Trained]] = {case: [] for case in cases}
    floors: Floors = {case.model: [] for case in cases}
    for again in range(run.flags.times):
        for case in cases:
            runs[case].append(ask(case))
            us = middle(runs[case][-1]["us"])
            say(f"{again + 1}/{run.flags.times}  {case}: {us:.0f} us")
        for model, found in floors.items():
            place = run.place()
            words = flags_of(out=place / "result.json", model=model, steps=run.flags.steps)
            run.script(FLOORS, place, words)
            found.append(result(place))
    for case in cases:
        runs[case].append(ask(case, is_counted=True))
    return runs, floors


middle = statistics.median


def differing(runs: Mapping[Case, Sequence[Trained]]) -> list[str]:
    """Cases that have not learned what the plain loop beside them has."""
    losses = {case: found[0]["losses"] for case, found in runs.items()}
    return [
        f"{case}: loss {ours:.6f}, of the plain loop {plain:.6f}"
        for case, (ours, plain) in losses.items()
        if "pull=" not in case.pace and abs(ours / plain - 1) > LOSS_WITHIN
    ]


def told_of(
    runs: Sequence[Trained], floors: Sequence[Mapping[str, float]]
) -> dict[str, float]:
    """Medians over the runs of a case, and of its model's: {what of a step: how much}."""
    *timed, counted = runs
    names = ("us", "plain us", "loader us")
    took = {n: middle([middle(run[n]) for run in timed]) for n in names}
    over = middle([middle(run["us"]) - middle(run["plain us"]) for run in timed])
    plain_cpu = middle([run["plain cpu us"] for run in timed])
    step = middle([middle(run["step us"]) for run in timed])
    spent = {role: middle([run["cpu us"][role] for run in timed]) for role in ROLES}
    calls = {n: middle([run["calls"][n] for run in timed]) for n in timed[0]["calls"]}
    held = {
        f"{role} {name}": middle([run["memory MiB"][role][n] for run in timed])
        for role in timed[0]["memory MiB"]
        for n, name in enumerate(("now", "most"))
    }
    alone = {name: middle([one[name] for one in floors]) for name in OF_MODEL}
    took |= {"over": over, "step()": step, "plain cpu us": plain_cpu}
    of_step = {**took, **alone, **spent, **held}
    return {**of_step, "messages": sum(counted["messages"].values()), **calls}


def tables_of(steps: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What is told of all cases, for people."""
    tables = []
    for title, heads in TABLES.items():
        rows = [[title, *heads.values()]]
        for case, told in steps.items():
            cells = [number(told[name]) if name in told else "" for name in heads]
            rows.append([case, *cells])
        tables.append(table(rows))
    return tables


def profile_table(profiles: Mapping[str, Mapping[str, float]]) -> str:
    """The largest items of the thread of the script, by case."""
    rows = [
        ["own time, profiled us", *(f"{place}." for place in range(1, LARGEST + 1)), "all"]
    ]
    for case, found in profiles.items():
        largest = sorted(found.items(), key=lambda one: -one[1])[:LARGEST]
        cells = [f"{room} {us:.0f}" for room, us in largest]
        rows.append([case, *cells, number(sum(found.values()))])
    return table(rows)


def floor_figures(floors: Floors) -> list[Figure]:
    """What nobody can spare: of each model, and of none."""
    us: dict[str, list[float]] = {}
    for model, found in floors.items():
        for one in found:
            for name, value in one.items():
                what = f"{name}, {model}" if name in OF_MODEL else name
                us.setdefault(what, []).append(value)
    return [Figure(what, "alone", "floor", "us", tuple(us[what])) for what in sorted(us)]


def goal_of(case: Case, plain_us: float) -> str:
    """What is wanted of a case; empty: nothing."""
    if case.model == "lookups" and "pull=" not in case.pace and case.place == "embedded":
        return "lookups"
    if case.model in JOBS and case.place == "embedded":
        return "jobs" if plain_us >= LONG_US else "over-jobs"
    return GOALS.get((case.place, case.pace, case.model), "")


def figures_of(runs: Mapping[Case, Sequence[Trained]]) -> tuple[list[Figure], list[Ratio]]:
    """Ours and the plain loop's of each case, and their ratio as on the page."""
    figures, ratios = [], []
    for case, found in runs.items():
        ours, plain = (
            tuple(middle(run[name]) for run in found[:-1]) for name in ("us", "plain us")
        )
        mine = Figure(f"a step, {case}", "paceline", "ours", "us", ours)
        other = Figure(f"a step, {case}", "plain loop", "floor", "us", plain)
        over = Figure(
            f"over the plain loop, {case}",
            *("paceline", "ours", "us"),
            tuple(middle(run["us"]) - middle(run["plain us"]) for run in found[:-1]),
        )
        figures += [mine, other, over]
        goal = goal_of(case, other.median)
        if goal.startswith("over"):
            ratios += [compared(mine, other), judged(over, goal)]
        else:
            ratios.append(compared(mine, other, goal))
    return figures, ratios


Pairs = dict[Case, dict[str, list[float]]]  # {case: {wall, role or together: ratios}}


def ratios_of(now: Trained, before: Trained) -> dict[str, float]:
    """One pair: wall time and processor time, by role and together, now by before."""
    new, old = now["cpu us"], before["cpu us"]
    whole = sum(old.values())
    found = {"wall": middle(now["us"]) / middle(before["us"])}
    found |= {r: new[r] / old[r] for r in ROLES if old[r] >= LEAST_SHARE * whole}
    return {**found, "together": sum(new.values()) / whole}


def measure_pairs(cases: Sequence[Case], pairs: int, now: Ask, before: Ask) -> Pairs:
    """Interleaved runs of two checkouts."""
    found: Pairs = {case: {} for case in cases}
    for again, case in itertools.product(range(pairs), cases):
        # Whoever is first finds the machine as the other left it: they take turns.
        if again % 2:
            old, new = before(case), now(case)
        else:
            new, old = now(case), before(case)
        ratios = ratios_of(new, old)
        for name, ratio in ratios.items():
            found[case].setdefault(name, []).append(ratio)
        say(f"{again + 1}/{pairs}  {case}: together {ratios['together']:.3f}")
    return found


def pair_table(pairs: Pairs) -> tuple[str, bool]:
    """Ratios for people, and whether every median is at most `AT_MOST`."""
    rows, is_kept = [["now, times what it was", "", "median", "least", "most", ""]], True
    for case, by_name in pairs.items():
        for name, ratios in by_name.items():
            median, least, most, _ = spread(ratios)
            is_kept = is_kept and median <= AT_MOST
            cells = [f"{value:.3f}" for value in (median, least, most)]
            rows.append([str(case), name, *cells, "above" if median > AT_MOST else ""])
    return table(rows), is_kept


@bench(
    "step_cost",
    opt("times", 5, "runs of each case"),
    opt("places", PLACES),
    opt("paces", PACES),
    opt("models", MODELS, f"or {', '.join(ASKED)}", (*MODELS, *ASKED)),
    opt("blocks", 20, "that are timed, of a run"),
    opt("steps", 50, "of a block"),
    opt("before", None, "another checkout, to compare with", kind=Path),
    opt("pairs", 10, "with --before"),
)
def main(run: Run) -> Found | int:
    """Measure this checkout, or compare it with another."""
    flags = run.flags
    named = itertools.product(flags.places, flags.paces, flags.models)
    cases = [
        Case(*names, flags.blocks, max(1, flags.steps // ALL_MODELS[names[2]].slower))
        for names in named
    ]
    with contextlib.ExitStack() as stack:
        now = stack.enter_context(checkout(ROOT))
        if flags.before is not None:
            before = stack.enter_context(checkout(flags.before.resolve()))
            pairs = measure_pairs(cases, flags.pairs, now, before)
            told, is_kept = pair_table(pairs)
            of_cases = {str(case): found for case, found in pairs.items()}
            record = write("step_cost_pairs", {**run.where, "pairs": of_cases})
            print(f"{told}\n\n{record}")
            return 0 if is_kept else 1
        runs, floors = measure(cases, run, now)
    wrong, (figures, ratios) = differing(runs), figures_of(runs)
    steps = {str(case): told_of(runs[case], floors[case.model]) for case in cases}
    told = "the loss is that of the plain loop beside it, but for pull=2"
    last = {str(case): found[-1] for case, found in runs.items()}
    messages = {case: found["messages"] for case, found in last.items()}
    profiles = {case: found["profile"] for case, found in last.items()}
    return Found(
        [*floor_figures(floors), *figures],
        ratios,
        "\n".join(wrong or [told]),
        not wrong,
        tables=[*tables_of(steps), profile_table(profiles)],
        more={"steps": steps, "messages": messages, "profiles": profiles},
    )

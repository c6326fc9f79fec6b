"""The CTR job of one trainer and one server against the best plain PyTorch loop.

::

    python -m benchmarks ctr [--times 5] [--rows adam|adagrad]

26 id fields of 1,000,000 Zipf ids, 16 dim, network 416-128-64-1 under Adam, batches of
512, `async`; and `async:pull=2`, where a batch lacks the step of the one before and nobody
waits. Tasks are as large as in a long job, of which a run is a piece. The plain loop has
`nn.Embedding(sparse=True)` or a dense one, one thread or two; the best of at most so many
threads is the peer. All see the same batches. First the held-out losses are compared:
beyond 1 % nothing else of a pace counts. Runs are interleaved, each a process of its own;
medians are compared, and all that was measured goes to ``build/bench``.

Goals: 1.6 times the best loop of one thread, 1.2 times that of two.

Exit status: 0; 1 if the loss of `async` differs. A goal that is missed is told, and is no
failure.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.ctr.loops import Plan
from benchmarks.harness.figures import (
    Figure,
    Kind,
    Profile,
    Ratio,
    compared,
    figure_table,
    kept,
    profile_table,
    ratio_table,
)
from benchmarks.harness.goals import wanted
from benchmarks.harness.processes import fork_server, job_config, wait_job, wait_script
from benchmarks.harness.record import circumstances, say, spread, table, write
from paceline.launch.job.commands import UserScript
from paceline.launch.processes.forkserver import ForkServer

SCRIPT = Path(__file__).with_name("loops.py")
FIELDS = 26
IDS = 1_000_000
ZIPF = 1.2
BATCH = 512
HELD_OUT = 20_480
THREADS = (1, 2)  # of the peer
LOSS_WITHIN = 0.01
HOPELESS = 1.5  # a plain loop so many times slower than the best runs once only
LIMIT_S = 900.0  # of one run
TASK_BATCHES = 64  # as in any job of 4,096 batches and more; a run is a piece of one


class Candidate(NamedTuple):
    """What is measured."""

    kind: str  # of `ctr_loops`
    threads: int
    pace: str = ""

    def __str__(self) -> str:
        """For the table."""
        if self.kind == "paceline":
            return f"paceline, {self.pace}, 1 trainer + 1 server of 1 thread each"
        name = "forward + backward alone" if self.kind == "floor" else f"plain, {self.kind}"
        return f"{name}, {self.threads} thread{'s' * (self.threads > 1)}"


PLAIN = tuple(Candidate(kind, n) for n in THREADS for kind in ("sparse", "dense"))
FLOOR = Candidate("floor", 1)
OURS = Candidate("paceline", 1, "async")
AHEAD = Candidate("paceline", 1, "async:pull=2")  # computes on while servers apply
PACELINE = (OURS, AHEAD)
# Rates of rows, of 0.01, 0.02, 0.03 and 0.05 the best of each candidate: that of all others
# is `ROWS_LR`'s. {(pace, optimizer): rate}
TUNED = {(AHEAD.pace, "adam"): 0.05}


class Run(NamedTuple):
    """One process of one candidate."""

    rate: float  # records per second
    loss: float  # held out
    cpu_ms: dict[str, float]  # {process: processor time per step}
    phases: dict[str, float]  # {phase: seconds}


def draw_records(records: int, seed: int, ids: int = IDS) -> dict[str, NDArray[Any]]:
    """Records whose label follows from hidden weights of their ids.

    Every field draws from all ids by Zipf's law, with frequent ids of its own.

    Returns:
        ids int64 ``(records, 26)`` and labels float32 ``(records,)``, 0 or 1.
    """
    draw = np.random.default_rng(seed)
    share = np.cumsum(np.arange(1, ids + 1, dtype=np.float64) ** -ZIPF)
    places = np.searchsorted(share, draw.random((records, FIELDS)) * share[-1])
    chosen = (places * 7919 + np.arange(FIELDS) * (ids // FIELDS)) % ids
    weights = draw.normal(0.0, 0.5, ids)
    chance = 1 / (1 + np.exp(-weights[chosen].sum(axis=1)))
    labels = draw.random(records) < chance
    return {"ids": chosen.astype(np.int64), "labels": labels.astype(np.float32)}


def run_once(
    candidate: Candidate, plan: Plan, data: Path, folder: Path, forks: ForkServer
) -> Run:
    """One run in processes of its own, in a fresh folder."""
    plan = plan._replace(rows_lr=TUNED.get((candidate.pace, plan.rows), 0.0))
    out = folder / "result.json"
    flags = {"data": data, "out": out, "threads": candidate.threads}
    named = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    arguments = (candidate.kind, *named, "--plan", json.dumps(plan._asdict()))
    threads = {"OMP_NUM_THREADS": str(candidate.threads)}
    if candidate.kind == "paceline":
        script = UserScript(str(SCRIPT), arguments)
        wait_job(forks, job_config(candidate.pace), script, threads, folder)
    else:
        wait_script(forks, SCRIPT, arguments, threads, folder / "log", LIMIT_S)
    result = json.loads(out.read_text())
    rate = plan.timed * plan.batch / result.pop("seconds")
    return Run(rate=rate, **result)


def rates(runs: dict[Candidate, list[Run]], candidate: Candidate) -> float:
    """The median rate of a candidate."""
    return spread([run.rate for run in runs[candidate]]).median


def best_plain(runs: dict[Candidate, list[Run]], threads: int) -> Candidate:
    """The fastest plain loop of at most so many threads.

    Who has two cores may still use one thread: on a machine that others use as well, two
    threads that wait for each other can be many times slower.
    """
    return max((c for c in PLAIN if c.threads <= threads), key=lambda c: rates(runs, c))


def measure(
    times: int, plan: Plan, data: Path, folder: Path, forks: ForkServer
) -> dict[Candidate, list[Run]]:
    """Interleaved runs; a hopeless plain loop is not run again."""
    candidates = [*PLAIN, FLOOR, *PACELINE]
    runs: dict[Candidate, list[Run]] = {candidate: [] for candidate in candidates}
    for number in range(times):
        for candidate in candidates:
            pace = candidate.pace.replace(":", "-")
            place = folder / f"{candidate.kind}{pace}-{candidate.threads}-{number}"
            place.mkdir()
            run = run_once(candidate, plan, data, place, forks)
            runs[candidate].append(run)
            say(f"{number + 1}/{times}  {candidate}: {run.rate:,.0f} records/s")
        if number == 0:
            hopeless = {
                c
                for c in PLAIN
                if rates(runs, c) * HOPELESS < rates(runs, best_plain(runs, c.threads))
            }
            candidates = [c for c in candidates if c not in hopeless]
    return runs


def compare_losses(
    runs: dict[Candidate, list[Run]],
) -> tuple[dict[Candidate, bool], dict[str, float]]:
    """{ours: whether its held-out loss is that of the best plain loops}, {who: loss}."""
    peers = [best_plain(runs, threads) for threads in THREADS]
    ours = [candidate for candidate in PACELINE if candidate in runs]
    losses = {c: spread([run.loss for run in runs[c]]).median for c in (*peers, *ours)}
    equal = {
        mine: all(abs(losses[mine] / losses[c] - 1) <= LOSS_WITHIN for c in peers)
        for mine in ours
    }
    return equal, {str(c): loss for c, loss in losses.items()}


def figures_of(runs: dict[Candidate, list[Run]], rows: str) -> list[Figure]:
    """Records per second of every candidate."""
    kinds: dict[str, Kind] = {"paceline": "ours", FLOOR.kind: "floor"}
    return [
        Figure(
            f"CTR, rows under {rows}",
            str(candidate),
            kinds.get(candidate.kind, "peer"),
            "records/s",
            tuple(run.rate for run in found),
            is_more_better=True,
        )
        for candidate, found in runs.items()
    ]


def ratios_of(
    runs: dict[Candidate, list[Run]],
    figures: Sequence[Figure],
    equal: Mapping[Candidate, bool],
) -> list[Ratio]:
    """Ours against the best loop of at most so many threads, where it learns the same."""
    by_name = {figure.who: figure for figure in figures}
    ratios = []
    for mine in (candidate for candidate, is_equal in equal.items() if is_equal):
        for threads in THREADS:
            peer, goal = best_plain(runs, threads), wanted(f"ctr-{threads}")
            ratio = compared(by_name[str(mine)], by_name[str(peer)], goal)
            told = f"best of at most {threads} thread{'s' * (threads > 1)}: {peer}"
            ratios.append(ratio._replace(against=f"{mine.pace}: {told}"))
    return ratios


def profiles_of(run: Run, steps: int) -> list[Profile]:
    """Where a step of the trainer goes, and what each process of the job spends."""
    phases = {name: 1000 * seconds / steps for name, seconds in run.phases.items()}
    return [
        Profile("a step of the trainer", "ms", phases),
        Profile("processor time of a step", "ms", run.cpu_ms),
    ]


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks ctr", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="runs of each candidate")
    parser.add_argument("--rows", choices=["adam", "adagrad"], default="adam")
    parser.add_argument("--warm", type=int, default=40, help="steps before the clock")
    parser.add_argument("--steps", type=int, default=200, help="steps that are timed")
    parser.add_argument("--ids", type=int, default=IDS)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)  # before the load is our own
    plan = Plan(
        flags.ids,
        BATCH,
        flags.warm,
        flags.steps,
        flags.rows,
        task_batches=TASK_BATCHES,
    )
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as name,
        fork_server(Path(name) / "forks", 1) as forks,
    ):
        folder, data = Path(name), Path(name) / "data.npz"
        trained = (plan.warm + plan.timed) * plan.batch
        records = draw_records(trained + HELD_OUT, flags.seed, flags.ids)
        np.savez(data, ids=records["ids"], labels=records["labels"])
        runs = measure(flags.times, plan, data, folder, forks)
        profiled = plan._replace(is_profiled=True)
        (folder / "profile").mkdir()
        profile = run_once(OURS, profiled, data, folder / "profile", forks)
    equal, losses = compare_losses(runs)
    is_equal = equal[OURS]
    share = float(records["labels"].mean())
    chance = -share * np.log(share) - (1 - share) * np.log(1 - share)
    print(f"rows under {flags.rows}; held-out loss (by chance {chance:.4f}):")
    print(table([[name, f"{loss:.4f}"] for name, loss in losses.items()]))
    for mine, is_same in equal.items():
        told = "equal within 1 %" if is_same else "NOT EQUAL: its rates mean nothing"
        print(f"{mine.pace}: {told}")
    figures = figures_of(runs, flags.rows)
    ratios = ratios_of(runs, figures, equal)
    profiles = profiles_of(profile, plan.timed)
    tables = [figure_table(figures), ratio_table(ratios), *map(profile_table, profiles)]
    print("\n" + "\n\n".join(tables))
    told = "held-out loss: " + ", ".join(f"{n}: {loss:.4f}" for n, loss in losses.items())
    record = {
        **where,
        "plan": plan._asdict(),
        "losses": losses,
        **kept(figures, ratios, told, is_equal=is_equal, profiles=profiles),
        "runs": {str(c): [run._asdict() for run in found] for c, found in runs.items()},
    }
    print(f"\n{write('ctr', record)}")
    return 0 if is_equal else 1

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
"""

import json
import statistics
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.ctr.loops import Plan
from benchmarks.harness.bench import TIMES, Found, Run, bench, flags_of, opt, result
from benchmarks.harness.figures import (
    Figure,
    Kind,
    Measure,
    Ratio,
    compared,
    measured,
    medians,
)
from benchmarks.harness.processes import job_config
from benchmarks.harness.record import table

SCRIPT = Path(__file__).with_name("loops.py")
FIELDS = 26
IDS = 1_000_000
ZIPF = 1.2
BATCH = 512
HELD_OUT = 20_480
THREADS = (1, 2)  # of the peer
LOSS_WITHIN = 0.01
HOPELESS = 1.5  # a plain loop so many times slower than the best runs once only
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


class Trained(NamedTuple):
    """One process of one candidate; of a peer's only the first two are known."""

    rate: float  # records per second
    loss: float  # held out
    cpu_ms: Mapping[str, float] = {}  # {process: processor time per step}


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


def write_data(plan: Plan, data: Path, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Draw what all candidates of a plan train on, and what is held out."""
    trained = (plan.warm + plan.timed) * plan.batch
    records = draw_records(trained + HELD_OUT, seed, plan.ids)
    np.savez(data, ids=records["ids"], labels=records["labels"])
    return records


def run_once(
    candidate: Candidate,
    plan: Plan,
    data: Path,
    place: Path,
    run: Run,
    preloaded: Sequence[str] = (),
) -> Trained:
    """One run in processes of its own, in a fresh folder."""
    plan = plan._replace(rows_lr=TUNED.get((candidate.pace, plan.rows), 0.0))
    named = flags_of(
        data=data,
        out=place / "result.json",
        threads=candidate.threads,
        plan=json.dumps(plan._asdict()),
    )
    words, threads = (candidate.kind, *named), {"OMP_NUM_THREADS": str(candidate.threads)}
    if candidate.kind == "paceline":
        config = job_config(candidate.pace)
        run.job(SCRIPT, words, place, config, threads, preloaded)
    else:
        run.script(SCRIPT, place, words, changes=threads)
    found = result(place)
    return Trained(plan.timed * plan.batch / found.pop("seconds"), **found)


def rates(runs: dict[Candidate, list[Trained]], candidate: Candidate) -> float:
    """The median rate of a candidate."""
    return statistics.median(run.rate for run in runs[candidate])


def best_plain(runs: dict[Candidate, list[Trained]], threads: int) -> Candidate:
    """The fastest plain loop of at most so many threads.

    Who has two cores may still use one thread: on a machine that others use as well, two
    threads that wait for each other can be many times slower.
    """
    return max((c for c in PLAIN if c.threads <= threads), key=lambda c: rates(runs, c))


def compare_losses(
    runs: dict[Candidate, list[Trained]],
) -> tuple[dict[Candidate, bool], dict[str, float]]:
    """{ours: whether its held-out loss is that of the best plain loops}, {who: loss}."""
    peers = [best_plain(runs, threads) for threads in THREADS]
    ours = [candidate for candidate in PACELINE if candidate in runs]
    losses = medians({c: runs[c] for c in (*peers, *ours)}, lambda run: run.loss)
    equal = {
        mine: all(abs(losses[mine] / losses[c] - 1) <= LOSS_WITHIN for c in peers)
        for mine in ours
    }
    return equal, {str(c): loss for c, loss in losses.items()}


def figures_of(runs: dict[Candidate, list[Trained]], rows: str) -> list[Figure]:
    """Records per second of every candidate."""
    kinds: dict[str, Kind] = {"paceline": "ours", FLOOR.kind: "floor"}
    rate = Measure(f"CTR, rows under {rows}", "records/s", lambda run: run.rate, True)
    return measured(runs, rate, kind=lambda one: kinds.get(one.kind, "peer"))


def ratios_of(
    runs: dict[Candidate, list[Trained]],
    figures: Sequence[Figure],
    equal: Mapping[Candidate, bool],
) -> list[Ratio]:
    """Ours against the best loop of at most so many threads, where it learns the same."""
    by_name = {figure.who: figure for figure in figures}
    ratios = []
    for mine in (candidate for candidate, is_equal in equal.items() if is_equal):
        for threads in THREADS:
            peer, goal = best_plain(runs, threads), f"ctr-{threads}"
            ratio = compared(by_name[str(mine)], by_name[str(peer)], goal)
            told = f"best of at most {threads} thread{'s' * (threads > 1)}: {peer}"
            ratios.append(ratio._replace(against=f"{mine.pace}: {told}"))
    return ratios


def is_hopeless(runs: dict[Candidate, list[Trained]], one: Candidate) -> bool:
    """Whether a plain loop is so slow that once is enough."""
    if one not in PLAIN:
        return False
    return rates(runs, one) * HOPELESS < rates(runs, best_plain(runs, one.threads))


STEPS = (  # of all benchmarks of this job
    opt("warm", 40, "steps before the clock"),
    opt("steps", 200, "steps that are timed"),
    opt("ids", IDS),
)
ROWS = opt("rows", "adam", choices=["adam", "adagrad"])


def plan_of(flags: Namespace, rows: str = "adam") -> Plan:
    """What candidates are to do, as the options say."""
    sizes = (flags.ids, BATCH, flags.warm, flags.steps)
    return Plan(*sizes, rows, task_batches=TASK_BATCHES)


@bench("ctr", TIMES, ROWS, *STEPS, opt("seed", 0))
def main(run: Run) -> Found:
    """Measure all."""
    plan, data = plan_of(run.flags, run.flags.rows), run.folder / "data.npz"
    records = write_data(plan, data, run.flags.seed)
    runs = run.interleaved(
        [*PLAIN, FLOOR, *PACELINE],
        lambda one, place: run_once(one, plan, data, place, run),
        lambda one, trained: f"{one}: {trained.rate:,.0f} records/s",
        gives_up=is_hopeless,
    )
    equal, losses = compare_losses(runs)
    share = float(records["labels"].mean())
    chance = -share * np.log(share) - (1 - share) * np.log(1 - share)
    rows = [["held-out loss", ""], ["by chance", f"{chance:.4f}"]]
    rows += [[name, f"{loss:.4f}"] for name, loss in losses.items()]
    for mine, is_same in equal.items():
        rows.append([mine.pace, "equal" if is_same else "NOT EQUAL, not judged"])
    figures = figures_of(runs, run.flags.rows)
    return Found(
        figures,
        ratios_of(runs, figures, equal),
        "held-out loss: " + ", ".join(f"{n}: {loss:.4f}" for n, loss in losses.items()),
        equal[OURS],
        [table(rows)],
        {
            "plan": plan._asdict(),
            "losses": losses,
            "runs": {str(c): [one._asdict() for one in found] for c, found in runs.items()},
        },
    )

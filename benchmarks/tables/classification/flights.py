"""Which of three million flights are late: weights in a table beside scikit-learn's SGD.

::

    python -m benchmarks flights [--times 3] [--models no-sync,push-pull] [--small]

Seconds of two epochs over the same hashed flights, from the first gradient to the last; the
area under the ROC curve on the same flights held out, by one function of ours. One trainer
against SGDClassifier, which has one thread; two beside it. Its penalty is that of a small
grid that is best on what is held out, in its favor. Reading and compiling are before the
clock; looks at what was held out (ours, one an epoch) are not.

Equality comes first: nobody of ours may be below the peer's area by more than 0.002.

Exit status: 0; 1 if ours is below.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.harness.environments import one_thread, versions, wait_python
from benchmarks.harness.figures import (
    Figure,
    Kind,
    compared,
    figure_table,
    kept,
    ratio_table,
)
from benchmarks.harness.processes import fork_server, job_config, wait_job, wait_modules
from benchmarks.harness.record import circumstances, say, write
from paceline.launch.job.commands import UserScript
from paceline.launch.processes.forkserver import ForkServer

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples" / "classification"))

import delays
import hashed

SCRIPT = Path(__file__).with_name("flights_job.py")
PEER, ALPHAS = "scikit-learn", (1e-6, 1e-5, 1e-4)
EPOCHS, LIMIT_S, BELOW = 2, 900.0, 0.002
TOOK, USED, AREA = "flights, two epochs", "flights, processor time", "flights, held out"


class Candidate(NamedTuple):
    """Who is measured: so many trainers of a model, or the peer with this penalty."""

    model: str
    trainers: int
    alpha: float = 0.0

    @property
    def who(self) -> str:
        """For people."""
        if not self.model:
            return f"SGDClassifier, alpha {self.alpha:g}"
        return f"{self.model}, {self.trainers} trainer{'s' * (self.trainers > 1)}"


class Run(NamedTuple):
    """Seconds and processor seconds of two epochs, and the area held out."""

    seconds: float
    used_s: float
    auc: float


def run_ours(one: Candidate, data: str, folder: Path, forks: ForkServer) -> Run:
    """One job."""
    out = folder / "weights.npz"
    words = (str(folder), "--data", data, "--model", one.model, "--epochs", str(EPOCHS))
    script = UserScript(str(SCRIPT), (*words, "--out", str(out)))
    wait_job(forks, job_config("async", one.trainers), script, one_thread(), folder)
    noted = [json.loads(file.read_text()) for file in folder.glob("*.moments")]
    ends = [found for found in noted if found]
    seconds = max(last[0] for _, last in ends) - min(first[0] for first, _ in ends)
    used_s = sum(last[1] - first[1] for first, last in ends)
    with np.load(out) as found:
        return Run(seconds, used_s, auc_of(data, found["rows"][:, 0]))


def run_peer(one: Candidate, data: str, folder: Path) -> Run:
    """One process of scikit-learn."""
    out, records = folder / "run.json", folder / "records.npz"
    np.savez(records, **delays.load(data)[0]._asdict())
    words = ("fit", "--records", str(records), "--width", str(delays.NUM_IDS))
    chosen = ("--epochs", str(EPOCHS), "--alpha", str(one.alpha), "--out", str(out))
    module = "benchmarks.tables.classification.flights_sgd"
    fit = {"fit": (*words, *chosen)}
    wait_modules(wait_python(PEER), module, fit, one_thread(), folder, LIMIT_S)
    found = json.loads(out.read_text(encoding="utf-8"))
    with np.load(out.with_suffix(".npz")) as model:
        auc = auc_of(data, model["weights"].astype(np.float32))  # a bias changes no order
    return Run(found["seconds"], found["used_s"], auc)


def auc_of(data: str, weights: delays.Floats) -> float:
    """On what was held out."""
    test = delays.load(data)[1]
    return hashed.auc(test.labels, weights[test.ids].sum(1))


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks flights", description=__doc__)
    parser.add_argument("--times", type=int, default=3, help="runs of each candidate")
    parser.add_argument("--models", default="no-sync,push-pull")
    parser.add_argument("--small", action="store_true", help="to see that it runs")
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)  # before the load is our own
    data, times = ("made-up", 1) if flags.small else ("flights", flags.times)
    chosen = [Candidate("", 0, alpha) for alpha in ALPHAS]
    chosen += [Candidate(m, n) for m in flags.models.split(",") for n in (1, 2)]
    runs: dict[Candidate, list[Run]] = {one: [] for one in chosen}
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as name,
        fork_server(Path(name) / "forks", 1) as forks,
    ):
        for again in range(times):
            for number, one in enumerate(chosen):
                place = Path(name) / f"{again}-{number}"
                place.mkdir()
                is_ours = bool(one.model)
                run = (
                    run_ours(one, data, place, forks)
                    if is_ours
                    else run_peer(one, data, place)
                )
                runs[one].append(run)
                took = f"{run.seconds:.2f} s, {run.used_s:.2f} of a processor"
                say(f"{again + 1}/{times}  {one.who}: {took}, AUC {run.auc:.4f}")
    best = max(runs, key=lambda one: -1.0 if one.model else runs[one][0].auc)
    least = min(run.auc for one, found in runs.items() if one.model for run in found)
    is_equal = least >= runs[best][0].auc - BELOW
    told = f"AUC of ours {least:.4f} or more, {best.who} {runs[best][0].auc:.4f}"
    figures = []
    for one, found in runs.items():
        kind: Kind = "ours" if one.model else "peer"
        for what, unit, column in ((TOOK, "s", 0), (USED, "s", 1), (AREA, "AUC", 2)):
            values = tuple(run[column] for run in found)
            is_area = what == AREA
            figures.append(Figure(what, one.who, kind, unit, values, is_area))
    peers = {figure.what: figure for figure in figures if figure.who == best.who}
    ours = [figure for figure in figures if figure.kind == "ours" and figure.what != AREA]
    ratios = [compared(figure, peers[figure.what]) for figure in ours]
    print(f"{told}\n\n{figure_table(figures)}\n\n{ratio_table(ratios)}")
    record = {
        **where,
        "peers": {PEER: versions(PEER)},
        **kept(figures, ratios, told, is_equal=is_equal),
    }
    print(f"\n{write('flights', record)}")
    return 0 if is_equal else 1

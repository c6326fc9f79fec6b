"""Epochs to a held-out error, times seconds per epoch: matrix factorisation in each model.

::

    python -m benchmarks factorisation_models [--models rotation,push-pull]

Four real trainers and a server learn MovieLens-100K, all factors in tables. A trainer
sleeps for each rating, so that cores do not matter: one epoch is `EPOCH_S` seconds of sleep
in all. Rotation runs once more with one block for each part of the users instead of two:
nothing travels while it computes. The log of each trainer says how long it waited for
blocks.

Each model has the rate of one grid at which it comes to the error first, by one run of
each; with that rate it runs as often as is wanted. (One slice has the rate of two.)
"""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.harness.bench import Found, Run, bench, opt, result
from benchmarks.harness.figures import Figure, Kind, Ratio, compared
from benchmarks.harness.processes import job_config
from benchmarks.harness.record import FOLDER, ROOT, say, table
from benchmarks.tables.curves import Curve, draw, picture_at
from benchmarks.tables.factorisation.job import Told, write_split

# On the path since the import above.
from plain import Settings  # isort: skip
from ratings import movielens  # isort: skip

SCRIPT = ROOT / "benchmarks" / "tables" / "factorisation" / "job.py"
TRAINERS, TARGET, EPOCH_S, BATCH, EPOCHS = 4, 0.915, 2.0, 2250, 30
WORST = TARGET + 0.12  # as far up as a picture goes
RATES = (0.01, 0.02, 0.04, 0.08)
SECONDS = f"MovieLens-100K, seconds to an RMSE of {TARGET}"
WAITING = re.compile(r"waiting for blocks \(([0-9.]+) %\)")


class Result(NamedTuple):
    """One job.

    Args:
        model: of computation.
        slices: blocks for each part, where they go round.
        rate: of learning.
        seconds: to the target; infinite if it never came.
        epochs: the same.
        waiting: share of a trainer's time, in percent; None where nothing goes round.
        seen: (seconds, epochs, error).
    """

    model: str
    slices: int
    rate: float
    seconds: float
    epochs: int
    waiting: float | None
    seen: list[tuple[float, int, float]]

    @property
    def name(self) -> str:
        """For people."""
        return self.model + (", one slice" if self.slices == 1 else "")

    def row(self) -> list[str]:
        """Of the table."""
        each_s = self.seconds / self.epochs
        waiting = "" if self.waiting is None else f"{self.waiting:.0f} %"
        numbers = [str(self.epochs), f"{each_s:.2f}", f"{self.seconds:.1f}"]
        return [self.name, f"{self.rate:g}", *numbers, waiting]


def run_once(data: Path, run: Run, model: str, slices: int, rate: float) -> Result:
    """One job of four trainers."""
    folder, num_ratings = run.place(), 90_000
    told = Told(
        data=str(data),
        out=str(folder / "result.json"),
        model=model,
        settings=tuple(Settings(k=16, rate=rate, penalty=0.1)),
        epochs=EPOCHS,
        target=TARGET,
        batch_size=BATCH,
        blocks=slices * TRAINERS,
        slices=slices,
        sleep_s=EPOCH_S / num_ratings,
    )
    words = (msgspec.json.encode(told).decode(),)
    run.job(SCRIPT, words, folder, job_config("sync", trainers=TRAINERS))
    # What is not finite has become nothing in the file.
    seen = [(s, n, math.inf if e is None else e) for s, n, e in result(folder)]
    reached = [(seconds, epochs) for seconds, epochs, error in seen if error <= TARGET]
    seconds, epochs = reached[0] if reached else (math.inf, 1)
    logs = "".join(path.read_text() for path in folder.glob("job/logs/trainer-*.log"))
    shares = [float(share) for share in WAITING.findall(logs)]
    waiting = statistics.mean(shares) if shares else None
    return Result(model, slices, rate, seconds, epochs, waiting, seen)


def figures_of(runs: Mapping[str, Sequence[Result]]) -> list[Figure]:
    """Seconds to the error of each model, and the two factors of them."""
    figures = []
    for who, found in runs.items():
        kind: Kind = "peer" if who == "push-pull" else "ours"
        values = {
            (SECONDS, "s"): [run.seconds for run in found],
            ("epochs to it", "epochs"): [float(run.epochs) for run in found],
            ("an epoch", "s"): [run.seconds / run.epochs for run in found],
        }
        for (what, unit), numbers in values.items():
            figures.append(Figure(what, who, kind, unit, tuple(numbers)))
    return sorted(
        figures, key=lambda figure: [SECONDS, "epochs to it", "an epoch"].index(figure.what)
    )


def ratios_of(figures: Sequence[Figure]) -> list[Ratio]:
    """All against push-pull, in seconds; rotation is to win."""
    named = {figure.who: figure for figure in figures if figure.what == SECONDS}
    lockstep = named.pop("push-pull", None)
    if lockstep is None:
        return []
    goals = {"rotation": "mf-rotation"}
    return [compared(found, lockstep, goals.get(who, "")) for who, found in named.items()]


@bench(
    "factorisation_models",
    opt("models", ("rotation", "push-pull", "no-sync", "locking")),
    opt("rates", RATES),
    opt("times", 1, "runs at the best rate"),
    opt("picture", FOLDER / "factorisation_models.png", kind=picture_at),
)
def main(run: Run) -> Found:
    """Find the best rate of each model, run it as often as is wanted, and draw."""
    rates, models = run.flags.rates, run.flags.models
    chosen = [(model, 2) for model in models]
    chosen += [("rotation", 1)] if "rotation" in models else []
    runs: dict[str, list[Result]] = {}
    told = []
    data = run.folder / "data.npz"
    write_split(movielens(), data)

    def told_run(model: str, slices: int, rate: float) -> Result:
        found = run_once(data, run, model, slices, rate)
        say("  ".join(found.row()))
        return found

    for model, slices in chosen:
        own_rates = rates if slices > 1 else [runs["rotation"][0].rate]
        tried = [told_run(model, slices, rate) for rate in own_rates]
        best, *others = sorted(tried, key=lambda one: one.seconds)
        runs[best.name] = [best]
        diverged = [f"{one.rate:g}" for one in others if one.seconds == math.inf]
        never = f" (never at {', '.join(diverged)})" if diverged else ""
        told.append(f"{best.rate:g} for {best.name}{never}")
    for _ in range(run.flags.times - 1):
        for found in runs.values():
            again = found[0]
            found.append(told_run(again.model, again.slices, again.rate))
    curves = {}
    for who, (first, *_) in runs.items():
        seconds, epochs, errors = zip(*first.seen, strict=True)
        shown = [min(error, WORST) for error in errors]
        curves[f"{who}, rate {first.rate:g}"] = Curve(epochs, seconds, shown)
    draw(curves, TARGET, "held-out RMSE", run.flags.picture)
    head = ["model", "rate", "epochs", "s/epoch", "product", "waiting for blocks"]
    figures = figures_of(runs)
    return Found(
        figures,
        ratios_of(figures),
        f"Four trainers, a held-out RMSE of {TARGET}; each model at its best rate of "
        f"{', '.join(f'{rate:g}' for rate in rates)}: {'; '.join(told)}",
        all(one.seconds < math.inf for found in runs.values() for one in found),
        tables=[table([head, *(found[0].row() for found in runs.values())])],
        more={"runs": {who: [one._asdict() for one in f] for who, f in runs.items()}},
    )

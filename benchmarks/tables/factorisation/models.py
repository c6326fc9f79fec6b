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

Exit status: 0; 1 if a model never came to the error.
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
from benchmarks.harness.goals import wanted
from benchmarks.harness.processes import job_config
from benchmarks.harness.record import FOLDER, ROOT, say, table
from benchmarks.tables.factorisation.job import Told, write_split
from paceline.watch.draw import COLORS, STYLE, import_pyplot

# On the path since the import above.
from plain import Settings  # isort: skip
from ratings import movielens  # isort: skip

SCRIPT = ROOT / "benchmarks" / "tables" / "factorisation" / "job.py"
TRAINERS, TARGET, EPOCH_S, BATCH, EPOCHS = 4, 0.915, 2.0, 2250, 30
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


class Place(NamedTuple):
    """Where runs find their data and leave their files."""

    data: Path
    run: Run


def run_once(place: Place, model: str, slices: int, rate: float) -> Result:
    """One job of four trainers."""
    folder, num_ratings = place.run.place(), 90_000
    told = Told(
        data=str(place.data),
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
    place.run.job(SCRIPT, words, folder, job_config("sync", trainers=TRAINERS))
    # What is not finite has become nothing in the file.
    seen = [(s, n, math.inf if e is None else e) for s, n, e in result(folder)]
    reached = [(seconds, epochs) for seconds, epochs, error in seen if error <= TARGET]
    seconds, epochs = reached[0] if reached else (math.inf, 1)
    logs = "".join(path.read_text() for path in folder.glob("job/logs/trainer-*.log"))
    shares = [float(share) for share in WAITING.findall(logs)]
    waiting = statistics.mean(shares) if shares else None
    return Result(model, slices, rate, seconds, epochs, waiting, seen)


def tuned(place: Place, model: str, slices: int, rates: Sequence[float]) -> list[Result]:
    """A run at each rate, the quickest to the error first."""
    runs = []
    for rate in rates:
        runs.append(run_once(place, model, slices, rate))
        say("  ".join(runs[-1].row()))
    return sorted(runs, key=lambda run: run.seconds)


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
    goals = {"rotation": wanted("mf-rotation")}
    return [compared(found, lockstep, goals.get(who)) for who, found in named.items()]


def draw(runs: Mapping[str, Sequence[Result]], picture: Path) -> None:
    """Error over epochs and over seconds: the two factors."""
    pyplot = import_pyplot()
    with pyplot.rc_context(STYLE):
        figure, both = pyplot.subplots(
            1, 2, figsize=(11, 4), sharey=True, layout="constrained"
        )
        for (who, found), color in zip(runs.items(), COLORS, strict=False):
            seconds, epochs, errors = zip(*found[0].seen, strict=True)
            label = f"{who}, rate {found[0].rate:g}"
            both[0].plot(epochs, errors, label=label, color=color)
            both[1].plot(seconds, errors, label=label, color=color)
        for axes, words in zip(both, ("epochs", "seconds"), strict=True):
            axes.axhline(TARGET, color="0.6", linestyle=":")
            axes.set(xlabel=words, ylim=(TARGET - 0.01, TARGET + 0.12))
        both[0].set_ylabel("held-out RMSE")
        both[0].legend(frameon=False)
        figure.savefig(picture, dpi=140, facecolor="white")
        pyplot.close(figure)


@bench(
    "factorisation_models",
    opt("models", ("rotation", "push-pull", "no-sync", "locking")),
    opt("rates", RATES),
    opt("times", 1, "runs at the best rate"),
    opt("picture", FOLDER / "factorisation_models.png", kind=Path),
)
def main(run: Run) -> Found:
    """Find the best rate of each model, run it as often as is wanted, and draw."""
    rates, models = run.flags.rates, run.flags.models
    chosen = [(model, 2) for model in models]
    chosen += [("rotation", 1)] if "rotation" in models else []
    runs: dict[str, list[Result]] = {}
    told = []
    place = Place(run.folder / "data.npz", run)
    write_split(movielens(), place.data)
    for model, slices in chosen:
        own_rates = rates if slices > 1 else [runs["rotation"][0].rate]
        best, *others = tuned(place, model, slices, own_rates)
        runs[best.name] = [best]
        diverged = [f"{one.rate:g}" for one in others if one.seconds == math.inf]
        never = f" (never at {', '.join(diverged)})" if diverged else ""
        told.append(f"{best.rate:g} for {best.name}{never}")
    for _ in range(run.flags.times - 1):
        for found in runs.values():
            again = found[0]
            found.append(run_once(place, again.model, again.slices, again.rate))
            say("  ".join(found[-1].row()))
    draw(runs, run.flags.picture)
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

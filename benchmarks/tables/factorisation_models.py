"""Epochs to a held-out error, times seconds per epoch: matrix factorisation in each model.

::

    python -m benchmarks.tables.factorisation_models [--models rotation,push-pull]

Four real trainers and a server learn MovieLens-100K. A trainer sleeps for each rating, so
that cores do not matter: one epoch is `EPOCH_S` seconds of sleep in all. Then one of the
four sleeps four times as long. Rotation runs once more with one block for each part of the
users instead of two: nothing travels while it computes. The log of each trainer says how
long it waited for blocks.

Exit status: 0; 1 if a job never came to the error.
"""

import argparse
import json
import math
import re
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.environments import one_thread
from benchmarks.processes import fork_server, job_config, wait_job
from benchmarks.record import FOLDER, ROOT, circumstances, say, table, write
from benchmarks.tables.factorisation_job import Told, write_split
from paceline.launch.commands import UserScript
from paceline.launch.forkserver import ForkServer
from paceline.watch.draw import COLORS, STYLE, import_pyplot

# On the path since the import above.
from plain import Settings  # isort: skip
from ratings import movielens  # isort: skip

SCRIPT = ROOT / "benchmarks" / "tables" / "factorisation_job.py"
TRAINERS, TARGET, EPOCH_S, BATCH = 4, 0.915, 4.0, 2250
# Twice this rate and the deltas of four, added up, overshoot where a user has many ratings.
SETTINGS = Settings(k=16, rate=0.02, penalty=0.1)
WAITING = re.compile(r"waiting for blocks \(([0-9.]+) %\)")


class Result(NamedTuple):
    """One job.

    Args:
        model: of computation.
        slices: blocks for each part, where they go round.
        is_one_slow: whether one trainer of four sleeps four times as long.
        seconds: to the target; infinite if it never came.
        epochs: the same.
        waiting: share of a trainer's time, in percent; None where nothing goes round.
        seen: (seconds, epochs, error).
    """

    model: str
    slices: int
    is_one_slow: bool
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
        slow = "one slow" if self.is_one_slow else "equal"
        numbers = [str(self.epochs), f"{each_s:.2f}", f"{self.seconds:.1f}"]
        return [self.name, slow, *numbers, waiting]


def run_once(
    data: Path, model: str, slices: int, slow: int, folder: Path, forks: ForkServer
) -> Result:
    """One job of four trainers."""
    folder.mkdir()
    out, num_ratings = folder / "seen.json", 90_000
    told = Told(
        data=str(data),
        out=str(out),
        model=model,
        settings=tuple(SETTINGS),
        target=TARGET,
        batch_size=BATCH,
        blocks=slices * TRAINERS,
        slices=slices,
        sleep_s=EPOCH_S / num_ratings,
        slow=slow,
    )
    script = UserScript(str(SCRIPT), (msgspec.json.encode(told).decode(),))
    wait_job(forks, job_config("sync", trainers=TRAINERS), script, one_thread(), folder)
    # What is not finite has become nothing in the file.
    seen = [(s, n, math.inf if e is None else e) for s, n, e in json.loads(out.read_text())]
    reached = [(seconds, epochs) for seconds, epochs, error in seen if error <= TARGET]
    seconds, epochs = reached[0] if reached else (math.inf, 1)
    logs = "".join(path.read_text() for path in folder.glob("job/logs/trainer-*.log"))
    shares = [float(share) for share in WAITING.findall(logs)]
    waiting = statistics.mean(shares) if shares else None
    return Result(model, slices, slow >= 0, seconds, epochs, waiting, seen)


def draw(results: Sequence[Result], picture: Path) -> None:
    """Error over seconds, trainers that are equal beside one that is slow."""
    pyplot = import_pyplot()
    with pyplot.rc_context(STYLE):
        figure, both = pyplot.subplots(
            1, 2, figsize=(11, 4), sharey=True, layout="constrained"
        )
        for axes, is_one_slow in zip(both, (False, True), strict=True):
            shown = [found for found in results if found.is_one_slow == is_one_slow]
            for found, color in zip(shown, COLORS, strict=False):
                seconds, _, errors = zip(*found.seen, strict=True)
                axes.plot(seconds, errors, label=found.name, color=color)
            axes.set(xlabel="seconds", title="one of four slow" if is_one_slow else "equal")
            axes.legend(frameon=False)
        both[0].set_ylabel("held-out RMSE")
        figure.savefig(picture, dpi=140, facecolor="white")
        pyplot.close(figure)


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep, draw; see the module."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.tables.factorisation_models", description=__doc__
    )
    parser.add_argument("--models", default="rotation,push-pull,no-sync,locking")
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)
    wanted = [(model, 2) for model in flags.models.split(",")]
    wanted += [(model, 1) for model, _ in wanted if model == "rotation"]
    results: list[Result] = []
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as name,
        fork_server(Path(name) / "forks", 1) as forks,
    ):
        data = Path(name) / "data.npz"
        write_split(movielens(), data)
        for slow in (-1, TRAINERS - 1):
            for model, slices in wanted:
                place = Path(name) / f"{model}-{slices}-{slow}"
                results.append(run_once(data, model, slices, slow, place, forks))
                say("  ".join(results[-1].row()))
    head = ["model", "trainers", "epochs", "s/epoch", "product", "waiting for blocks"]
    print(table([head, *(found.row() for found in results)]))
    path = write(
        "factorisation_models", {**where, "results": [r._asdict() for r in results]}
    )
    draw(results, FOLDER / "factorisation_models.png")
    print(f"\n{path}")
    return 0 if all(found.seconds < math.inf for found in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""One slow trainer of four, in each model of computation: time to the same objective.

::

    python -m benchmarks table_stragglers [--times 3] [--only mf,lda,k-means]

Four real trainers and a server; a trainer sleeps for each record, so that cores do not
matter. Then one of the four sleeps `SLOWER` times as long, for ever. What is told of each
model is the seconds to one objective, and how many times as long they are beside the slow
trainer. Where work is anybody's, the other three do more: `FREE_TIMES` times as long is
what there is to pay. Where all wait for all, it is `SLOWER` times.

* mf: matrix factorisation of MovieLens-100K to a held-out RMSE, each model at the rate that
  `benchmarks factorisation_models` has found best for it.
* lda: topics of Reuters to the likelihood that the kernel alone has after `LDA_EPOCHS`.
* k-means: iterations over digits, from one start; all come to the same centroids.

Runs of models are interleaved. Waits: for the jobs. Exit status: 0; 1 if a job never came
to its objective.
"""

import argparse
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
import numpy as np

from benchmarks.harness.environments import one_thread
from benchmarks.harness.figures import Figure, Ratio, figure_table, kept
from benchmarks.harness.processes import fork_server, job_config, wait_job, wait_script
from benchmarks.harness.record import FOLDER, ROOT, circumstances, say, table, write
from benchmarks.tables.factorisation import models as factorisation_models
from benchmarks.tables.factorisation.job import write_split
from benchmarks.tables.topics import compare as topics
from benchmarks.tables.topics import job as topics_job
from paceline.launch.job.commands import UserScript
from paceline.launch.processes.forkserver import ForkServer
from paceline.watch.draw import COLORS, STYLE, import_pyplot

# On the path since the imports above.
from ratings import movielens  # isort: skip

TRAINERS, SLOWER = 4, 4.0
FREE_TIMES = TRAINERS / (TRAINERS - 1 + 1 / SLOWER)
# Batches of an epoch, where they are anybody's: the last one of the slow trainer is what
# all wait for at the epoch's end.
SMALL, SMALLER = 4 * TRAINERS, 10 * TRAINERS
MF_RATES = {"rotation": 0.04, "push-pull": 0.02, "no-sync": 0.04, "locking": 0.04}
LDA_EPOCHS, LDA_MOST, LDA_SLEEP_S = 20, 40, 0.6  # to the target; at most; of an epoch
LDA_PARTS = dict.fromkeys(("no-sync", "push-pull", "locking"), SMALL)
KMEANS_ITERATIONS, KMEANS_SLEEP_S = 12, 0.8  # of an iteration
KMEANS_PARTS = {"push-pull": SMALLER}
KMEANS_SCRIPT = ROOT / "benchmarks" / "tables" / "clusters" / "job.py"

Run = Callable[[str, bool], float]  # (model, is one slow) -> seconds to the objective


class Place(NamedTuple):
    """Where runs leave their files."""

    folder: Path
    forks: ForkServer


class Algorithm(NamedTuple):
    """One, ready to be run.

    Args:
        objective: in words.
        models: that it has.
        run: one job.
    """

    objective: str
    models: tuple[str, ...]
    run: Run


def factorisation(place: Place) -> Algorithm:
    """Matrix factorisation to an error."""
    data = place.folder / "ratings.npz"
    write_split(movielens(), data)
    runs = factorisation_models.Place(data, place.folder, place.forks)

    def run(model: str, is_slow: bool) -> float:
        slow = TRAINERS - 1 if is_slow else -1
        found = factorisation_models.run_once(runs, model, 2, MF_RATES[model], slow)
        return found.seconds

    target = factorisation_models.TARGET
    return Algorithm(f"a held-out RMSE of {target}", tuple(MF_RATES), run)


def lda(place: Place) -> Algorithm:
    """Topics to a likelihood."""
    train, held_out = topics_job.corpus.load("reuters").split()
    texts = place.folder / "texts.npz"
    topics_job.write_texts(train, held_out, texts)

    def told(model: str, slow: int, out: Path) -> topics_job.Told:
        return topics_job.Told(
            data=str(texts),
            out=str(out),
            model=model,
            topics=20,
            epochs=LDA_EPOCHS if model == "plain" else LDA_MOST,
            parts=LDA_PARTS.get(model, TRAINERS),
            look_every=5,
            priors=(0.1, 0.01),
            sleep_s=0.0 if model == "plain" else LDA_SLEEP_S / len(train.words),
            slow=slow,
            slower=SLOWER,
        )

    def see(model: str, slow: int) -> topics_job.Seen:
        folder = Path(tempfile.mkdtemp(dir=place.folder))
        out = folder / "seen"
        words = (msgspec.json.encode(told(model, slow, out)).decode(),)
        if model == "plain":
            wait_script(place.forks, topics.SCRIPT, words, {}, folder / "log", 600.0)
        else:
            config = job_config("sync", trainers=TRAINERS)
            script = UserScript(str(topics.SCRIPT), words)
            wait_job(place.forks, config, script, one_thread(), folder)
        return msgspec.json.decode(out.read_bytes(), type=topics_job.Seen)

    target = see("plain", -1).log_likelihood[-1]

    def run(model: str, is_slow: bool) -> float:
        seen = see(model, TRAINERS - 1 if is_slow else -1)
        seconds = topics.until(target, seen.log_likelihood, seen.seconds)
        return math.inf if seconds is None else seconds

    models = ("rotation", "push-pull", "no-sync", "locking")
    return Algorithm(f"a log-likelihood of {target:.3f} a token", models, run)


def kmeans(place: Place) -> Algorithm:
    """Iterations of Lloyd's algorithm."""

    def run(model: str, is_slow: bool) -> float:
        folder = Path(tempfile.mkdtemp(dir=place.folder))
        out, num_points = folder / "run.npz", 1797
        words = [str(folder), str(SLOWER if is_slow else 1)]
        words += [str(KMEANS_SLEEP_S / num_points), "--model", model, "--data", "digits"]
        words += ["--iterations", str(KMEANS_ITERATIONS), "--out", str(out), "--k", "16"]
        words += ["--parts", str(KMEANS_PARTS.get(model, TRAINERS))]
        script = UserScript(str(KMEANS_SCRIPT), tuple(words))
        wait_job(place.forks, job_config("async", TRAINERS), script, one_thread(), folder)
        with np.load(out) as found:
            return float(found["seconds"][-1] - found["seconds"][0])

    models = ("rotation", "push-pull", "allreduce")
    return Algorithm(f"{KMEANS_ITERATIONS} iterations", models, run)


ALGORITHMS = {"mf": factorisation, "lda": lda, "k-means": kmeans}


def figures_of(
    runs: Mapping[tuple[str, str], Mapping[bool, Sequence[float]]],
) -> list[Figure]:
    """Seconds of each model of each algorithm, without and with a slow trainer."""
    figures = []
    for is_slow, beside in ((False, "equal trainers"), (True, "one of four 4x slower")):
        for (algorithm, model), found in runs.items():
            what = f"{algorithm}, {beside}"
            figures.append(Figure(what, model, "ours", "s", tuple(found[is_slow])))
    return sorted(figures, key=lambda figure: figure.what)


def times_longer(
    runs: Mapping[tuple[str, str], Mapping[bool, Sequence[float]]],
) -> list[Ratio]:
    """How many times as long each model takes beside a slow trainer."""
    return [
        Ratio(algorithm, f"{model}, one slow", f"{model}, equal trainers", value)
        for (algorithm, model), found in runs.items()
        if math.isfinite(value := median(found[True]) / median(found[False]))
    ]


def draw(ratios: Sequence[Ratio], picture: Path) -> None:
    """How many times as long, a bar a model, beside what it must and what it may cost."""
    pyplot = import_pyplot()
    algorithms = list(dict.fromkeys(ratio.what for ratio in ratios))
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(
            1,
            len(algorithms),
            figsize=(3.6 * len(algorithms), 3.2),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for axis, algorithm in zip(axes[0], algorithms, strict=True):
            shown = [ratio for ratio in ratios if ratio.what == algorithm]
            names = [ratio.ours.partition(",")[0] for ratio in shown]
            axis.bar(names, [ratio.value for ratio in shown], color=COLORS[0])
            for height in (FREE_TIMES, SLOWER):
                axis.axhline(height, color="0.4", linestyle=":")
            axis.set_title(algorithm)
        axes[0, 0].set_ylabel("times as long beside a slow trainer")
        figure.savefig(picture, dpi=140, facecolor="white")
        pyplot.close(figure)


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep, draw; see the module."""
    parser = argparse.ArgumentParser(
        prog="benchmarks table_stragglers", description=__doc__
    )
    parser.add_argument("--times", type=int, default=1, help="runs of each")
    parser.add_argument("--only", default=",".join(ALGORITHMS))
    parser.add_argument("--picture", type=Path, default=FOLDER / "table_stragglers.png")
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)
    runs: dict[tuple[str, str], dict[bool, list[float]]] = {}
    objectives = []
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as name,
        fork_server(Path(name) / "forks", 1) as forks,
    ):
        for algorithm in flags.only.split(","):
            found = ALGORITHMS[algorithm](Place(Path(name), forks))
            objectives.append(f"{algorithm}: {found.objective}")
            for _ in range(flags.times):
                for model in found.models:
                    for is_slow in (False, True):
                        seconds = found.run(model, is_slow)
                        of_model = runs.setdefault((algorithm, model), {})
                        of_model.setdefault(is_slow, []).append(seconds)
                        beside = ", one slow" if is_slow else ""
                        say(f"{algorithm}, {model}{beside}: {seconds:.1f} s")
    figures, ratios = figures_of(runs), times_longer(runs)
    rows = [["", "model", "equal, s", "one slow, s", "times as long"]]
    for (algorithm, model), seen in runs.items():
        even, slow = median(seen[False]), median(seen[True])
        times = f"{slow / even:.2f}"
        rows.append([algorithm, model, f"{even:.1f}", f"{slow:.1f}", times])
    told = (
        f"Four trainers to one objective ({'; '.join(objectives)}); where work is "
        f"anybody's, {FREE_TIMES:.2f} times as long is what there is to pay, where all "
        f"wait for all, {SLOWER:g} times"
    )
    print(f"{told}\n\n{figure_table(figures)}\n\n{table(rows)}")
    is_reached = all(value < math.inf for figure in figures for value in figure.values)
    record = {**where, **kept(figures, ratios, told, is_equal=is_reached)}
    print(f"\n{write('table_stragglers', record)}")
    draw(ratios, flags.picture)
    return 0 if is_reached else 1

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

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
import numpy as np

from benchmarks.harness.bench import Found, Run, bench, flags_of, opt
from benchmarks.harness.figures import Figure, Ratio
from benchmarks.harness.processes import job_config
from benchmarks.harness.record import FOLDER, ROOT, say
from benchmarks.tables.factorisation import models as factorisation_models
from benchmarks.tables.factorisation.job import write_split
from benchmarks.tables.topics import compare as topics
from benchmarks.tables.topics import job as topics_job
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

Once = Callable[[str, bool], float]  # (model, is one slow) -> seconds to the objective


class Algorithm(NamedTuple):
    """One, ready to be run.

    Args:
        objective: in words.
        models: that it has.
        run: one job.
    """

    objective: str
    models: tuple[str, ...]
    run: Once


def factorisation(run: Run) -> Algorithm:
    """Matrix factorisation to an error."""
    data = run.folder / "ratings.npz"
    write_split(movielens(), data)
    place = factorisation_models.Place(data, run)

    def once(model: str, is_slow: bool) -> float:
        slow = TRAINERS - 1 if is_slow else -1
        found = factorisation_models.run_once(place, model, 2, MF_RATES[model], slow)
        return found.seconds

    target = factorisation_models.TARGET
    return Algorithm(f"a held-out RMSE of {target}", tuple(MF_RATES), once)


def lda(run: Run) -> Algorithm:
    """Topics to a likelihood."""
    train, held_out = topics_job.corpus.load("reuters").split()
    texts = run.folder / "texts.npz"
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
        folder = run.place()
        out = folder / "seen"
        words = (msgspec.json.encode(told(model, slow, out)).decode(),)
        if model == "plain":
            run.script(topics.SCRIPT, words, folder, {})
        else:
            run.job(topics.SCRIPT, words, folder, job_config("sync", TRAINERS))
        return msgspec.json.decode(out.read_bytes(), type=topics_job.Seen)

    target = see("plain", -1).log_likelihood[-1]

    def once(model: str, is_slow: bool) -> float:
        seen = see(model, TRAINERS - 1 if is_slow else -1)
        seconds = topics.until(target, seen.log_likelihood, seen.seconds)
        return math.inf if seconds is None else seconds

    models = ("rotation", "push-pull", "no-sync", "locking")
    return Algorithm(f"a log-likelihood of {target:.3f} a token", models, once)


def kmeans(run: Run) -> Algorithm:
    """Iterations of Lloyd's algorithm."""

    def once(model: str, is_slow: bool) -> float:
        folder, num_points = run.place(), 1797
        out, each_s = folder / "run.npz", KMEANS_SLEEP_S / num_points
        flags = flags_of(
            model=model,
            data="digits",
            iterations=KMEANS_ITERATIONS,
            out=out,
            k=16,
            parts=KMEANS_PARTS.get(model, TRAINERS),
        )
        words = (folder, SLOWER if is_slow else 1, each_s, *flags)
        run.job(KMEANS_SCRIPT, words, folder, job_config("async", TRAINERS))
        with np.load(out) as found:
            return float(found["seconds"][-1] - found["seconds"][0])

    models = ("rotation", "push-pull", "allreduce")
    return Algorithm(f"{KMEANS_ITERATIONS} iterations", models, once)


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


@bench(
    "table_stragglers",
    opt("times", 1, "runs of each"),
    opt("only", tuple(ALGORITHMS), choices=tuple(ALGORITHMS)),
    opt("picture", FOLDER / "table_stragglers.png", kind=Path),
)
def main(run: Run) -> Found:
    """Run each model of each algorithm without and with a slow trainer, and draw."""
    runs: dict[tuple[str, str], dict[bool, list[float]]] = {}
    objectives = []
    for algorithm in run.flags.only:
        found = ALGORITHMS[algorithm](run)
        objectives.append(f"{algorithm}: {found.objective}")
        turns = itertools.product(range(run.flags.times), found.models, (False, True))
        for _, model, is_slow in turns:
            seconds = found.run(model, is_slow)
            of_model = runs.setdefault((algorithm, model), {})
            of_model.setdefault(is_slow, []).append(seconds)
            say(f"{algorithm}, {model}{', one slow' * is_slow}: {seconds:.1f} s")
    figures, ratios = figures_of(runs), times_longer(runs)
    draw(ratios, run.flags.picture)
    told = (
        f"Four trainers to one objective ({'; '.join(objectives)}); where work is "
        f"anybody's, {FREE_TIMES:.2f} times as long is what there is to pay, where all "
        f"wait for all, {SLOWER:g} times"
    )
    is_reached = all(value < math.inf for figure in figures for value in figure.values)
    return Found(figures, ratios, told, is_reached)

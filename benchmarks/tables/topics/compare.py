"""Topics beside peers, and models of computation beside each other.

::

    python -m benchmarks topics [--data king-james] [--topics 100] [--times 3]

    kernel             the compiled loop alone, one thread: the floor
    tomotopy, lda      peers (C++, Cython), in an environment of their own
    no-sync, ...       ours, as jobs of processes: trainers, one server, one coordinator

All draw topics of the same documents with the same K, alpha, beta, from topics by chance,
and are looked at every few epochs: log p(words, topics) per token, by one function, of the
counts that each has. The clock stands meanwhile. Candidates take turns; what is told is the
median of the seconds until a look finds the target, between two looks by a straight line.
The target is what the kernel has come to after ``--target-epoch`` epochs.

Of the models there are two factors: epochs until the target, and seconds of an epoch.
``cpu``: ms of an epoch that one process computed (a trainer's or a peer's, not the
server's and the coordinator's), which says more where others are at work.
``waited``: the share of the loop that a trainer waited for cells and their rows.

Waits: for processes, `LIMIT_S` each; one that fails ends it.
"""

import json
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
import numpy as np

from benchmarks.harness.bench import Found, Run, bench, opt
from benchmarks.harness.environments import one_thread, wait_python
from benchmarks.harness.figures import Figure, Kind, Ratio, compared
from benchmarks.harness.processes import job_config, wait_modules
from benchmarks.harness.record import ROOT, table
from benchmarks.tables.curves import Curve, draw, picture_at
from benchmarks.tables.topics.job import Seen, Told, corpus, quality, write_texts

SCRIPT = ROOT / "benchmarks" / "tables" / "topics" / "job.py"
LIMIT_S = 1800.0
COMPILE = """
import sys, time
sys.path.insert(0, "examples/topics")
import gibbs, numpy as np
n, k = np.zeros(0, np.int32), np.zeros((1, 4), np.int32)
began = time.perf_counter()
gibbs.sweep(n, n, n.astype(np.int64), n, k, k, np.zeros(4, np.int64), 0.1, 0.01, 1, 0, 0)
print(time.perf_counter() - began)
"""


class Candidate(NamedTuple):
    """Who draws.

    Args:
        name: for people.
        who: ``plain``, a peer, or a model of computation.
        threads: computing ones: trainers, or a peer's.
        slices: of a rotation.
    """

    name: str
    who: str
    threads: int = 1
    slices: int = 2


CANDIDATES = (
    Candidate("kernel alone", "plain"),
    Candidate("tomotopy, 1 thread", "tomotopy"),
    Candidate("lda, 1 thread", "lda"),
    Candidate("no-sync, 1 trainer", "no-sync"),
    Candidate("rotation, 1 trainer", "rotation"),
    Candidate("tomotopy, 2 threads", "tomotopy", 2),
    Candidate("no-sync, 2 trainers", "no-sync", 2),
    Candidate("push-pull, 2 trainers", "push-pull", 2),
    Candidate("locking, 2 trainers", "locking", 2),
    Candidate("rotation, 2 trainers", "rotation", 2),
    Candidate("rotation, 2 trainers, one slice", "rotation", 2, 1),
    Candidate("push-pull, 4 trainers", "push-pull", 4),
    Candidate("rotation, 4 trainers", "rotation", 4),
)
PEERS = {"tomotopy", "lda"}
TO_TARGET = "topics, seconds to a likelihood"


def run_once(
    one: Candidate,
    run: Run,
    train: Any,  # noqa: ANN401  (a corpus of the example)
    texts: Path,
    folder: Path,
) -> Seen:
    """One candidate, once, in processes of its own."""
    flags = run.flags
    if one.who in PEERS:
        return run_peer(one, flags, train, texts, folder)
    parts = 1 if one.threads == 1 else flags.parts * one.threads
    told = Told(
        data=str(texts),
        out=str(folder / "seen"),
        model=one.who,
        topics=flags.topics,
        epochs=flags.epochs,
        parts=parts,
        look_every=flags.look_every,
        priors=(flags.alpha, flags.beta),
        slices=one.slices,
    )
    words = (msgspec.json.encode(told).decode(),)
    if one.who == "plain":
        run.script(SCRIPT, folder, words, changes={}, limit_s=LIMIT_S)
    else:
        run.job(SCRIPT, words, folder, job_config("sync", trainers=one.threads), {})
    return msgspec.json.decode(Path(told.out).read_bytes(), type=Seen)


def run_peer(
    one: Candidate,
    flags: Namespace,
    train: Any,  # noqa: ANN401  (as above)
    texts: Path,
    folder: Path,
) -> Seen:
    """A peer in its own environment; its counts are measured here."""
    out = folder / "counts.npz"
    known = {
        "data": texts,
        "out": out,
        "topics": flags.topics,
        "vocabulary": len(train.vocabulary),
        "epochs": flags.epochs,
        "look-every": flags.look_every,
        "threads": one.threads,
        "alpha": flags.alpha,
        "beta": flags.beta,
    }
    words = [str(word) for name, value in known.items() for word in (f"--{name}", value)]
    python, module = wait_python("topics"), "benchmarks.tables.topics.peers"
    environment = {**one_thread(), "OMP_NUM_THREADS": "1"}
    command = {one.who: (one.who, *words)}
    wait_modules(python, module, command, environment, folder, LIMIT_S)
    told = json.loads(out.with_suffix(".json").read_text())
    seconds = told["seconds"]
    priors, logs = quality.Priors(flags.alpha, flags.beta), []
    with np.load(out, allow_pickle=False) as counts:
        for n_dk, n_wk in zip(counts["n_dk"], counts["n_wk"], strict=True):
            assert n_dk.sum() == n_wk.sum() == len(train.words), one.name
            logs.append(quality.log_likelihood(n_dk, n_wk, priors) / len(train.words))
    out.unlink()
    epochs = [flags.look_every * (number + 1) for number in range(len(seconds))]
    return Seen(
        epochs=epochs,
        seconds=seconds,
        log_likelihood=logs,
        kernel_s=seconds[-1],
        cpu_s=told["cpu_s"][-1],
    )


def until(target: float, logs: list[float], along: list[float]) -> float | None:
    """Where a curve first reaches a target, by a straight line between looks."""
    before = None
    for value, at in zip(logs, along, strict=True):
        if value >= target:
            if before is None:
                return at
            share = (target - before[0]) / (value - before[0])
            return before[1] + share * (at - before[1])
        before = value, at
    return None


def figures(runs: list[Seen], target: float) -> dict[str, Any]:
    """What is told of a candidate: medians over its runs that reached the target."""
    reached = [
        (
            until(target, seen.log_likelihood, list(map(float, seen.epochs))),
            until(target, seen.log_likelihood, seen.seconds),
        )
        for seen in runs
    ]
    found = [(e, s) for e, s in reached if e is not None and s is not None]
    totals = [seen.seconds[-1] for seen in runs]
    return {
        "reached": f"{len(found)}/{len(runs)}",
        "epochs": median(e for e, _ in found) if found else None,
        "seconds": median(s for _, s in found) if found else None,
        "all_seconds": [s for _, s in found],
        "epoch_s": median(seen.seconds[-1] / seen.epochs[-1] for seen in runs),
        "cpu_s": median(seen.cpu_s / seen.epochs[-1] for seen in runs),
        "kernel_share": median(s.kernel_s / t for s, t in zip(runs, totals, strict=True)),
        "waited_share": median(s.waited_s / t for s, t in zip(runs, totals, strict=True)),
        "last": median(seen.log_likelihood[-1] for seen in runs),
        "is_exact": all(seen.is_exact for seen in runs),
    }


def measured(all_runs: dict[str, list[Seen]], target: float) -> list[Figure]:
    """Seconds to the target of everyone who came to it, and the epochs of them."""
    found = []
    for one in CANDIDATES:
        runs = all_runs.get(one.name, [])
        numbers = figures(runs, target) if runs else {"all_seconds": []}
        if not numbers["all_seconds"]:
            continue
        kind: Kind = (
            "floor" if one.who == "plain" else "peer" if one.who in PEERS else "ours"
        )
        seconds, epochs = tuple(numbers["all_seconds"]), (numbers["epochs"],)
        found.append(Figure(TO_TARGET, one.name, kind, "s", seconds))
        found.append(Figure("topics, epochs to it", one.name, kind, "epochs", epochs))
    return sorted(found, key=lambda figure: figure.what != TO_TARGET)


def compare(found: list[Figure]) -> list[Ratio]:
    """Our best against tomotopy, rotation against push-pull, all beside the floor."""
    seconds = {figure.who: figure for figure in found if figure.what == TO_TARGET}
    ratios = []
    for number in (1, 2):
        ours = [
            seconds[one.name]
            for one in CANDIDATES
            if one.name in seconds and one.who not in {*PEERS, "plain"}
            if one.threads == number
        ]
        peer = seconds.get(f"tomotopy, {number} thread{'s' * (number > 1)}")
        if ours and peer is not None:
            best = min(ours, key=lambda figure: figure.median)
            ratios.append(compared(best, peer, f"tomotopy-{number}"))
        rotating = [figure for figure in ours if figure.who.startswith("rotation")]
        lockstep = seconds.get(f"push-pull, {number} trainers")
        if rotating and lockstep is not None:
            best = min(rotating, key=lambda figure: figure.median)
            ratios.append(compared(best, lockstep, "lda-rotation"))
    floor = seconds.get(CANDIDATES[0].name)
    ours = [figure for figure in seconds.values() if figure.kind == "ours"]
    return ratios + [compared(one, floor) for one in ours if floor is not None]


def wait_compiled() -> float:
    """Seconds that compiling the kernel takes where nothing is kept, in its own process."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        done = subprocess.run(
            [sys.executable, "-c", COMPILE],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT_S,
        )
    return float(done.stdout)


def rows_of(found: dict[str, dict[str, Any]], floor_s: float) -> list[list[str]]:
    """What is told of everyone, for people."""
    heads = "epochs,ms/epoch,cpu,seconds,x kernel,kernel,waited,last"
    rows = [["", *heads.split(",")]]
    for name, one in found.items():
        seconds = one["seconds"]
        rows.append(
            [
                name,
                "-" if one["epochs"] is None else f"{one['epochs']:.1f}",
                f"{one['epoch_s'] * 1e3:.1f}",
                f"{one['cpu_s'] * 1e3:.1f}",
                "-" if seconds is None else f"{seconds:.2f}",
                "-" if seconds is None else f"{seconds / floor_s:.2f}",
                f"{one['kernel_share']:.0%}",
                f"{one['waited_share']:.0%}",
                f"{one['last']:.4f}",
            ]
        )
    return rows


@bench(
    "topics",
    opt("data", "king-james", choices=corpus.NAMES),
    opt("topics", 100),
    opt("alpha", 0.1),
    opt("beta", 0.01),
    opt("epochs", 80),
    opt("target-epoch", 50),
    opt("look-every", 10),
    opt("parts", 1, "for each of several trainers"),
    opt("times", 3),
    opt("only", ("",), "words that a candidate's name must have one of"),
    opt("picture", None, kind=picture_at),
)
def main(run: Run) -> Found:
    """Run all in turns, and tell."""
    flags, texts = run.flags, run.folder / "texts.npz"
    train, held_out = corpus.load(flags.data).split()
    write_texts(train, held_out, texts)

    def once(one: Candidate, place: Path) -> Seen:
        seen = run_once(one, run, train, texts, place)
        assert seen.is_exact, f"{one.name}: counts are no histogram of topics"
        return seen

    def told(one: Candidate, seen: Seen) -> str:
        last, seconds = seen.log_likelihood[-1], seen.seconds[-1]
        return f"{one.name}: {last:.4f} after {seconds:.2f} s"

    plain, *others = CANDIDATES
    chosen = [one for one in others if any(word in one.name for word in flags.only)]
    seen = run.interleaved([plain, *chosen], once, told)
    runs = {one.name: found for one, found in seen.items()}
    kernel = runs[plain.name][0]
    target = kernel.log_likelihood[kernel.epochs.index(flags.target_epoch)]
    found = {name: figures(of_one, target) for name, of_one in runs.items()}
    if flags.picture is not None:
        curves = {
            name: Curve(one.epochs, one.seconds, one.log_likelihood)
            for name, (one, *_) in runs.items()
        }
        draw(curves, target, "log-likelihood per token", flags.picture)
    compile_s, measures = wait_compiled(), measured(runs, target)
    return Found(
        measures,
        compare(measures),
        f"{flags.data}: {len(train.words):,} tokens, K = {flags.topics}, alpha "
        f"{flags.alpha}, beta {flags.beta}, until a log-likelihood per token of "
        f"{target:.4f}, that of the kernel alone after {flags.target_epoch} epochs",
        len(measures) == 2 * len(runs),  # who never came to it has no figures
        tables=[
            table(rows_of(found, found[plain.name]["seconds"])),
            f"compiling the kernel, once and apart: {compile_s:.1f} s",
        ],
        more={
            "data": flags.data,
            "topics": flags.topics,
            "target": target,
            "compile_s": compile_s,
            "found": found,
            "curves": {name: msgspec.to_builtins(of_one) for name, of_one in runs.items()},
        },
    )

"""A synchronous step of a dense model by two trainers, against DDP over Gloo.

::

    python -m benchmarks dense [--times 5] [--batches 64,8] [--codecs fp16]

784-1024-1024-10 (1.9 million parameters) under Adam, two trainers and one server in `sync`
against two processes under `DistributedDataParallel`, one thread each. Both take the same
two batches in every step, so that the parameters must be the same up to rounding: that and
the held-out loss are compared first. The floor is forward, backward and Adam in two
processes at once that exchange nothing. With a codec, the held-out loss must be that of
DDP without one; DDP's own compression stands beside it where it has the same. Runs are
interleaved, each in processes of its own.

What a round costs beside its numbers (tick, commit, reply) is measured with one trainer
and one parameter of 4 KiB: from the acknowledgement of the push, which the server holds
then, to the end of the step, less what a pull takes by itself.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.dense.loops import CLASSES, FEATURES, HOOKS, SIDES, Plan
from benchmarks.harness.apart import pace_of
from benchmarks.harness.bench import TIMES, Found, Run, bench, flags_of, opt, result
from benchmarks.harness.figures import (
    Figure,
    Kind,
    Measure,
    Ratio,
    compared,
    judged,
    measured,
    medians,
)
from benchmarks.harness.processes import job_config
from benchmarks.harness.record import ROOT

SCRIPT = Path(__file__).with_name("loops.py")
ROUND_SCRIPT = ROOT / "benchmarks" / "transport" / "job.py"
HELD_OUT = 4096
BATCHES = (64, 8)  # of which something is wanted
ROUND_BYTES = 4096
LOSS_WITHIN = 0.01
PARAMETERS_WITHIN = 1e-4  # norm-relative, in float32: Adam divides rounding by little
LIMIT_S = 180.0  # of one run


class Candidate(NamedTuple):
    """What is measured, a kind of `dense_loops`."""

    name: str
    who: str
    kind: Kind
    codec: str = ""


OURS = Candidate("paceline", "paceline, 2 trainers + 1 server", "ours")
DDP = Candidate("ddp", "DDP over Gloo, 2 processes", "peer")
FLOOR = Candidate("floor", "2 processes, no exchange", "floor")


def coded(codecs: Sequence[str]) -> list[Candidate]:
    """Ours with each codec, and DDP where it has such a thing."""
    found = []
    for codec in codecs:
        found.append(OURS._replace(who=f"{OURS.who}, {codec}", codec=codec))
        if codec in HOOKS:
            found.append(DDP._replace(who=f"{DDP.who}, {codec}", codec=codec))
    return found


class Trained(NamedTuple):
    """Both sides of one candidate; what differs is that of the slower one."""

    rate: float  # records per second, of both together
    loss: float  # held out
    parameters: NDArray[np.float32]  # of side 0


def draw_records(records: int, seed: int) -> dict[str, NDArray[Any]]:
    """Records whose class follows from a hidden linear map of their features."""
    draw = np.random.default_rng(seed)
    features = draw.standard_normal((records, FEATURES), np.float32)
    hidden = draw.standard_normal((FEATURES, CLASSES), np.float32)
    return {"features": features, "labels": (features @ hidden).argmax(axis=1)}


def write_data(plan: Plan, folder: Path) -> Path:
    """Draw what all candidates of a plan train on, and what is held out."""
    path = folder / f"data-{plan.batch}.npz"
    trained = SIDES * (plan.warm + plan.timed) * plan.batch
    np.savez(path, **draw_records(trained + HELD_OUT, seed=0))  # type: ignore[arg-type]  # the stub takes a keyword for an option
    return path


def run_once(
    candidate: Candidate, plan: Plan, data: Path, place: Path, run: Run
) -> Trained:
    """One run, each side in a process of its own, in a fresh folder."""
    told = json.dumps(plan._asdict())
    words = (candidate.name, *flags_of(data=data, out=place, plan=told))
    if candidate.kind == "ours":
        run.job(SCRIPT, words, place, job_config(pace_of(candidate.codec), SIDES))
    else:
        coded = flags_of(codec=candidate.codec)
        sides = [(*words, *coded, *flags_of(side=side)) for side in range(SIDES)]
        run.script(SCRIPT, place, *sides, limit_s=LIMIT_S)
    results = [result(place, side) for side in range(SIDES)]
    seconds = max(one["seconds"] for one in results)
    parameters = np.load(place / "parameters-0.npy")
    records = SIDES * plan.timed * plan.batch
    return Trained(records / seconds, results[0]["loss"], parameters)


def run_rounds(run: Run, place: Path) -> dict[str, Any]:
    """A job of one trainer and one small parameter: what its script has written."""
    words = flags_of(bytes=ROUND_BYTES, trips=run.flags.rounds, out=place / "result.json")
    run.job(ROUND_SCRIPT, words, place, job_config("sync"))
    found: dict[str, Any] = result(place)
    return found


def distance(ours: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """How far two models are apart, as a share of the other's norm."""
    return float(np.linalg.norm(ours - other) / np.linalg.norm(other))


def compare_models(runs: Mapping[Candidate, Sequence[Trained]]) -> tuple[bool, str]:
    """Whether both have learned the same, and what was compared."""
    losses = medians(runs, lambda run: run.loss)
    apart = max(distance(ours.parameters, runs[DDP][0].parameters) for ours in runs[OURS])
    is_equal = (
        abs(losses[OURS] / losses[DDP] - 1) <= LOSS_WITHIN and apart <= PARAMETERS_WITHIN
    )
    told = (
        f"held-out loss {losses[OURS]:.5f}, of DDP {losses[DDP]:.5f}; the parameters are "
        f"{apart:.1e} of their norm apart (at most {PARAMETERS_WITHIN:g})"
    )
    return is_equal, told


def figures_of(batch: int, runs: Mapping[Candidate, Sequence[Trained]]) -> list[Figure]:
    """Records per second of every candidate."""
    rate = Measure(f"batch {batch} each", "records/s", lambda run: run.rate, True)
    return measured(runs, rate, who=lambda one: one.who, kind=lambda one: one.kind)


def loses(runs: Mapping[Candidate, Sequence[Trained]], candidate: Candidate) -> bool:
    """Whether a held-out loss is another than DDP's."""
    losses = medians(runs, lambda run: run.loss)
    return abs(losses[candidate] / losses[DDP] - 1) > LOSS_WITHIN


def ratios_of(
    runs: Mapping[Candidate, Sequence[Trained]], batch: int, goal: str
) -> list[Ratio]:
    """Ours against DDP and the floor; with a codec against DDP, and DDP with the same."""
    by_name = {figure.who: figure for figure in figures_of(batch, runs)}
    ours, peer = by_name[OURS.who], by_name[DDP.who]
    ratios = [compared(ours, peer, goal), compared(ours, by_name[FLOOR.who])]
    for candidate in runs:
        if candidate.kind == "ours" and candidate.codec:
            mine, same = by_name[candidate.who], f"{DDP.who}, {candidate.codec}"
            found = [
                compared(mine, by_name[who]) for who in (peer.who, same) if who in by_name
            ]
            if loses(runs, candidate):
                found = [r._replace(against=f"{r.against} (not equal)") for r in found]
            ratios += found
    return ratios


def measure_rounds(run: Run) -> Figure:
    """What a round costs beside its numbers."""

    def once(_: str, place: Path) -> float:
        found = run_rounds(run, place)
        return 1000 * (float(found["after push"]) - float(found["pull"]))

    who = "paceline, 1 trainer + 1 server"
    runs = run.interleaved(
        [who], once, lambda _, ms: f"bookkeeping of a round: {ms:.3f} ms"
    )
    return Figure("bookkeeping of a round", who, "ours", "ms", tuple(runs[who]))


@bench(
    "dense",
    TIMES,
    opt("batches", BATCHES, "sizes, of each trainer"),
    opt("codecs", ("fp16",), "as well, or an empty word"),
    opt("warm", 20, "steps before the clock"),
    opt("steps", 200, "steps that are timed"),
    opt("rounds", 500, "of the small parameter"),
)
def main(run: Run) -> Found:
    """Measure each batch size, then rounds."""
    figures, ratios, told = list[Figure](), list[Ratio](), list[str]()
    is_equal = True
    for batch in run.flags.batches:
        plan = Plan(batch, run.flags.warm, run.flags.steps)
        data = write_data(plan, run.folder)
        runs = run.interleaved(
            [OURS, DDP, FLOOR, *coded(run.flags.codecs)],
            lambda one, place, plan=plan, data=data: run_once(one, plan, data, place, run),
            lambda one, found, batch=batch: (
                f"batch {batch}, {one.who}: {found.rate:,.0f}/s"
            ),
        )
        is_same, words = compare_models(runs)
        is_equal = is_equal and is_same
        figures += figures_of(batch, runs)
        goal = f"dense-{batch}" if batch in BATCHES else ""
        ratios += ratios_of(runs, batch, goal)
        told.append(f"batch {batch}: {words}")
    figure = measure_rounds(run)
    ratios.append(judged(figure, "round"))
    return Found([*figures, figure], ratios, "\n".join(told), is_equal)

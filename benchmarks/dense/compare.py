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

Exit status: 0; 1 if the models differ. A goal that is missed is told, and is no failure.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.dense.loops import CLASSES, FEATURES, HOOKS, SIDES, Plan
from benchmarks.harness.environments import one_thread
from benchmarks.harness.figures import (
    Figure,
    Kind,
    Profile,
    Ratio,
    compared,
    figure_table,
    judged,
    kept,
    profile_table,
    ratio_table,
)
from benchmarks.harness.goals import Goal, wanted
from benchmarks.harness.processes import (
    ROOT,
    fork_server,
    job_config,
    wait_job,
    wait_scripts,
)
from benchmarks.harness.record import circumstances, say, spread, write
from paceline.launch.job.commands import UserScript
from paceline.launch.processes.forkserver import ForkServer

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


class Run(NamedTuple):
    """Both sides of one candidate; what differs is that of the slower one."""

    rate: float  # records per second, of both together
    loss: float  # held out
    parameters: NDArray[np.float32]  # of side 0
    phases: dict[str, float]  # {phase: seconds} of side 0


def draw_records(records: int, seed: int) -> dict[str, NDArray[Any]]:
    """Records whose class follows from a hidden linear map of their features."""
    draw = np.random.default_rng(seed)
    features = draw.standard_normal((records, FEATURES), np.float32)
    hidden = draw.standard_normal((FEATURES, CLASSES), np.float32)
    return {"features": features, "labels": (features @ hidden).argmax(axis=1)}


def run_once(
    candidate: Candidate, plan: Plan, data: Path, folder: Path, forks: ForkServer
) -> Run:
    """One run, each side in a process of its own, in a fresh folder."""
    shared = ("--data", str(data), "--out", str(folder))
    words = (candidate.name, *shared, "--plan", json.dumps(plan._asdict()))
    codec = candidate.codec
    if candidate.kind == "ours":
        pace = f"sync:codec={codec}" if codec else "sync"
        script = UserScript(str(SCRIPT), words)
        wait_job(forks, job_config(pace, trainers=SIDES), script, one_thread(), folder)
    else:
        sides = [(*words, "--side", str(side), "--codec", codec) for side in range(SIDES)]
        wait_scripts(forks, SCRIPT, sides, one_thread(), folder / "log", LIMIT_S)
    results = [
        json.loads((folder / f"result-{side}.json").read_text()) for side in range(SIDES)
    ]
    seconds = max(result["seconds"] for result in results)
    parameters = np.load(folder / "parameters-0.npy")
    records = SIDES * plan.timed * plan.batch
    return Run(records / seconds, results[0]["loss"], parameters, results[0]["phases"])


def run_rounds(trips: int, folder: Path, forks: ForkServer, *more: str) -> dict[str, Any]:
    """A job of one trainer and one small parameter: what its script has written."""
    folder.mkdir()
    out = folder / "result.json"
    flags = {"bytes": ROUND_BYTES, "trips": trips, "out": out}
    words = tuple(word for name, v in flags.items() for word in (f"--{name}", str(v)))
    script = UserScript(str(ROUND_SCRIPT), (*words, *more))
    wait_job(forks, job_config("sync"), script, one_thread(), folder)
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def distance(ours: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """How far two models are apart, as a share of the other's norm."""
    return float(np.linalg.norm(ours - other) / np.linalg.norm(other))


def compare_models(runs: Mapping[Candidate, Sequence[Run]]) -> tuple[bool, str]:
    """Whether both have learned the same, and what was compared."""
    losses = {c: spread([run.loss for run in runs[c]]).median for c in (OURS, DDP)}
    apart = max(distance(ours.parameters, runs[DDP][0].parameters) for ours in runs[OURS])
    is_equal = (
        abs(losses[OURS] / losses[DDP] - 1) <= LOSS_WITHIN and apart <= PARAMETERS_WITHIN
    )
    told = (
        f"held-out loss {losses[OURS]:.5f}, of DDP {losses[DDP]:.5f}; the parameters are "
        f"{apart:.1e} of their norm apart (at most {PARAMETERS_WITHIN:g})"
    )
    return is_equal, told


def figures_of(batch: int, runs: Mapping[Candidate, Sequence[Run]]) -> list[Figure]:
    """Records per second of every candidate."""
    what = f"batch {batch} each"
    return [
        Figure(
            what,
            candidate.who,
            candidate.kind,
            "records/s",
            tuple(run.rate for run in found),
            is_more_better=True,
        )
        for candidate, found in runs.items()
    ]


def loses(runs: Mapping[Candidate, Sequence[Run]], candidate: Candidate) -> bool:
    """Whether a held-out loss is another than DDP's."""
    loss, of_ddp = (spread([run.loss for run in runs[c]]).median for c in (candidate, DDP))
    return abs(loss / of_ddp - 1) > LOSS_WITHIN


def ratios_of(
    runs: Mapping[Candidate, Sequence[Run]], batch: int, goal: Goal | None
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


def measure(
    times: int,
    candidates: Sequence[Candidate],
    plan: Plan,
    data: Path,
    folder: Path,
    forks: ForkServer,
) -> dict[Candidate, list[Run]]:
    """Interleaved runs."""
    runs: dict[Candidate, list[Run]] = {candidate: [] for candidate in candidates}
    for again in range(times):
        for candidate, found in runs.items():
            place = folder / f"{candidate.name}{candidate.codec}-{plan.batch}-{again}"
            place.mkdir()
            found.append(run_once(candidate, plan, data, place, forks))
            rate = f"{found[-1].rate:,.0f} records/s"
            say(f"{again + 1}/{times}  batch {plan.batch}, {candidate.who}: {rate}")
    return runs


class Findings(NamedTuple):
    """Of all batch sizes."""

    figures: list[Figure]
    ratios: list[Ratio]
    told: list[str]  # what was compared
    are_equal: list[bool]
    profiles: list[Profile]


def measure_batch(
    plan: Plan,
    times: int,
    codecs: Sequence[str],
    folder: Path,
    forks: ForkServer,
    findings: Findings,
) -> None:
    """Measure one batch size, profile it once more, and add to the findings."""
    data = folder / f"data-{plan.batch}.npz"
    trained = SIDES * (plan.warm + plan.timed) * plan.batch
    np.savez(data, **draw_records(trained + HELD_OUT, seed=0))
    candidates = [OURS, DDP, FLOOR, *coded(codecs)]
    runs = measure(times, candidates, plan, data, folder, forks)
    place = folder / f"profile-{plan.batch}"
    place.mkdir()
    profile = run_once(OURS, plan._replace(is_profiled=True), data, place, forks)
    is_equal, words = compare_models(runs)
    findings.figures.extend(figures_of(plan.batch, runs))
    goal = wanted(f"dense-{plan.batch}") if plan.batch in BATCHES else None
    findings.ratios.extend(ratios_of(runs, plan.batch, goal))
    findings.told.append(f"batch {plan.batch}: {words}")
    findings.are_equal.append(is_equal)
    phases = {name: 1000 * s / plan.timed for name, s in profile.phases.items()}
    what = f"a step of a trainer, batch {plan.batch}"
    findings.profiles.append(Profile(what, "ms", phases))


def measure_rounds(
    times: int, trips: int, folder: Path, forks: ForkServer
) -> tuple[Figure, Profile]:
    """What a round costs beside its numbers, and where its step goes."""
    ms = []
    for again in range(times):
        found = run_rounds(trips, folder / f"rounds-{again}", forks)
        ms.append(1000 * (found["after push"] - found["pull"]))
        say(f"{again + 1}/{times}  bookkeeping of a round: {ms[-1]:.3f} ms")
    who = "paceline, 1 trainer + 1 server"
    figure = Figure("bookkeeping of a round", who, "ours", "ms", tuple(ms))
    phases = run_rounds(trips, folder / "rounds", forks, "--profiled")["step"]
    return figure, Profile("a step of 4 KiB, nothing computed", "us", phases)


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks dense", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="runs of each candidate")
    parser.add_argument("--batches", default="64,8", help="sizes, of each trainer")
    parser.add_argument("--codecs", default="fp16", help="as well, or an empty word")
    parser.add_argument("--warm", type=int, default=20, help="steps before the clock")
    parser.add_argument("--steps", type=int, default=200, help="steps that are timed")
    parser.add_argument("--rounds", type=int, default=500, help="of the small parameter")
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)  # before the load is our own
    codecs = [name for name in flags.codecs.split(",") if name]
    findings = Findings([], [], [], [], [])
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as name,
        fork_server(Path(name) / "forks", 1) as forks,
    ):
        for batch in map(int, flags.batches.split(",")):
            plan = Plan(batch, flags.warm, flags.steps)
            measure_batch(plan, flags.times, codecs, Path(name), forks, findings)
        figure, rounds = measure_rounds(flags.times, flags.rounds, Path(name), forks)
    figures = [*findings.figures, figure]
    ratios = [*findings.ratios, judged(figure, wanted("round"))]
    findings.profiles.append(rounds)
    is_equal, told = all(findings.are_equal), "\n".join(findings.told)
    print(told if is_equal else f"{told}\nNOT EQUAL: the rates below mean nothing")
    print(f"\n{figure_table(figures)}\n\n{ratio_table(ratios)}")
    for profile in findings.profiles:
        print(f"\n{profile_table(profile)}")
    found = kept(figures, ratios, told, is_equal=is_equal, profiles=findings.profiles)
    print(f"\n{write('dense', {**where, **found})}")
    return 0 if is_equal else 1

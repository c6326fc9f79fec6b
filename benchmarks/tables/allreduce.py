"""Values reduced over all trainers, each way, against Gloo; and a model without servers.

::

    python -m benchmarks allreduce [--times 5] [--kib 4,64,1024,16384] [--small]

Float32 sums of two and of four processes of one host, one thread each: `Table.allreduce`
each way, with all that makes it count once (a batch and its lease, a tick, a journalled
round), and `torch.distributed.all_reduce` over Gloo, which has none of it. The floor is a
copy of the same bytes in as many processes at once. Beside the time stands that of the
processors, which says more where others are at work. Then the model of `benchmarks dense`
with ``pace="allreduce"``, in `sync` with a server, and under DDP over Gloo. Interleaved
runs, each in processes of its own.

Equality comes first: all sides of ours have the same bits, those of the sum in the order
of the sides; Gloo's differ from it by rounding alone. Models as in `benchmarks dense`.

Exit status: 0; 1 if results differ.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.dense import compare as dense
from benchmarks.dense.loops import SIDES, Plan
from benchmarks.harness.environments import one_thread
from benchmarks.harness.figures import (
    Figure,
    Kind,
    Ratio,
    compared,
    figure_table,
    kept,
    ratio_table,
)
from benchmarks.harness.processes import fork_server, job_config, wait_job, wait_scripts
from benchmarks.harness.record import circumstances, say, write
from benchmarks.tables.allreduce_loops import values_of
from paceline.launch.job.commands import UserScript
from paceline.launch.processes.forkserver import ForkServer
from paceline.trainer.peers.reduction import HOWS

SCRIPT = Path(__file__).with_name("allreduce_loops.py")
LIMIT_S = 300.0
WARM = 5
GLOO_WITHIN = 1e-5
BETWEEN = dense.OURS._replace(name="between", who="paceline, 2 trainers, allreduce")


class Case(NamedTuple):
    """What is reduced, by how many, how often."""

    kib: int
    sides: int
    calls: int

    @property
    def what(self) -> str:
        """For people."""
        size = f"{self.kib // 1024} MiB" if self.kib >= 1024 else f"{self.kib} KiB"
        return f"allreduce of {size}, {self.sides} processes"


class Candidate(NamedTuple):
    """Who is measured: a way of ours, Gloo or the floor."""

    who: str
    kind: Kind
    how: str = ""


GLOO = Candidate("Gloo", "peer")
FLOOR = Candidate("a copy of the bytes", "floor")
CANDIDATES = (
    *(Candidate(f"paceline, {how}", "ours", how) for how in HOWS if how != "auto"),
    GLOO,
    FLOOR,
)


class Run(NamedTuple):
    """Milliseconds of a call: of the slowest side, and of processors, by all sides.

    What server and coordinator use is not among them. ``is_right``: so was the sum.
    """

    ms: float
    used_ms: float
    is_right: bool


def calls_of(kib: int) -> int:
    """So many that a run takes a second or so."""
    return max(20, min(400, 64 * 1024 // kib))


def run_once(candidate: Candidate, case: Case, folder: Path, forks: ForkServer) -> Run:
    """One run, each side in a process of its own."""
    kind = {"ours": "ours", "peer": "gloo", "floor": "floor"}[candidate.kind]
    shape = ("--kib", str(case.kib), "--sides", str(case.sides), "--warm", str(WARM))
    words = (kind, *shape, "--calls", str(case.calls), "--out", str(folder))
    if candidate.kind == "ours":
        script = UserScript(str(SCRIPT), (*words, "--how", candidate.how))
        config = job_config("sync", trainers=case.sides)
        wait_job(forks, config, script, one_thread(), folder)
    else:
        sides = [(*words, "--side", str(side)) for side in range(case.sides)]
        wait_scripts(forks, SCRIPT, sides, one_thread(), folder / "log", LIMIT_S)
    told = [
        json.loads((folder / f"result-{side}.json").read_text(encoding="utf-8"))
        for side in range(case.sides)
    ]
    is_right = candidate.kind == "floor" or is_sum(candidate, case, folder)
    waited_s = max(one["seconds"] for one in told)
    return Run(1000 * waited_s, 1000 * sum(one["used_s"] for one in told), is_right)


def is_sum(candidate: Candidate, case: Case, folder: Path) -> bool:
    """Whether every side has the sum of what all have brought to the last call."""
    expected = np.zeros((case.kib // 4, 1024), np.float32)
    for side in range(case.sides):
        own = values_of(side, case.kib)
        own[0, 0] = WARM + case.calls - 1
        expected = own if side == 0 else expected + own
    found = [np.load(folder / f"total-{side}.npy") for side in range(case.sides)]
    if candidate.kind == "ours":
        return all(one.tobytes() == expected.tobytes() for one in found)
    return all(np.allclose(one, expected, GLOO_WITHIN, GLOO_WITHIN) for one in found)


def measure(
    times: int, case: Case, folder: Path, forks: ForkServer
) -> dict[Candidate, list[Run]]:
    """Interleaved runs of everyone."""
    runs: dict[Candidate, list[Run]] = {one: [] for one in CANDIDATES}
    for again in range(times):
        for number, (one, found) in enumerate(runs.items()):
            place = folder / f"{case.kib}-{case.sides}-{again}-{number}"
            place.mkdir()
            found.append(run_once(one, case, place, forks))
            ms = f"{found[-1].ms:.2f} ms, {found[-1].used_ms:.2f} of processors"
            say(f"{again + 1}/{times}  {case.what}, {one.who}: {ms}")
    return runs


def add_case(
    case: Case,
    runs: Mapping[Candidate, Sequence[Run]],
    figures: list[Figure],
    ratios: list[Ratio],
) -> None:
    """Milliseconds of everyone; ours against Gloo and the floor."""
    for what in (case.what, f"processors, {case.what}"):
        by_who = {
            one: Figure(
                what,
                one.who,
                one.kind,
                "ms",
                tuple(run.ms if what == case.what else run.used_ms for run in found),
            )
            for one, found in runs.items()
        }
        figures += by_who.values()
        for one, figure in by_who.items():
            if one.kind == "ours":
                ratios += [compared(figure, by_who[other]) for other in (GLOO, FLOOR)]


def run_between(plan: Plan, data: Path, folder: Path, forks: ForkServer) -> dense.Run:
    """A run of the dense model whose gradients travel between trainers."""
    words = ("dense", "--data", str(data), "--out", str(folder))
    script = UserScript(str(SCRIPT), (*words, "--plan", json.dumps(plan._asdict())))
    config = job_config("sync", trainers=SIDES)
    wait_job(forks, config, script, one_thread(), folder)
    results = [
        json.loads((folder / f"result-{side}.json").read_text(encoding="utf-8"))
        for side in range(SIDES)
    ]
    seconds = max(result["seconds"] for result in results)
    parameters = np.load(folder / "parameters-0.npy")
    rate = SIDES * plan.timed * plan.batch / seconds
    return dense.Run(rate, results[0]["loss"], parameters, {})


def measure_model(
    times: int, plan: Plan, folder: Path, forks: ForkServer
) -> dict[dense.Candidate, list[dense.Run]]:
    """Interleaved runs of the dense model, ours both ways."""
    data = folder / f"data-{plan.batch}.npz"
    trained = SIDES * (plan.warm + plan.timed) * plan.batch
    np.savez(data, **dense.draw_records(trained + dense.HELD_OUT, seed=0))
    candidates = (dense.OURS, BETWEEN, dense.DDP, dense.FLOOR)
    runs: dict[dense.Candidate, list[dense.Run]] = {one: [] for one in candidates}
    for again in range(times):
        for one, found in runs.items():
            place = folder / f"{one.name}-{plan.batch}-{again}"
            place.mkdir()
            if one is BETWEEN:
                found.append(run_between(plan, data, place, forks))
            else:
                found.append(dense.run_once(one, plan, data, place, forks))
            rate = f"{found[-1].rate:,.0f} records/s"
            say(f"{again + 1}/{times}  batch {plan.batch}, {one.who}: {rate}")
    return runs


def add_model(
    batch: int,
    runs: Mapping[dense.Candidate, Sequence[dense.Run]],
    figures: list[Figure],
    ratios: list[Ratio],
) -> tuple[bool, str]:
    """Records per second; whether the models without servers are DDP's."""
    found = dense.figures_of(batch, runs)
    by_who = {figure.who: figure for figure in found}
    figures += found
    ours = by_who[BETWEEN.who]
    others = (dense.DDP, dense.OURS, dense.FLOOR)
    ratios += [compared(ours, by_who[one.who]) for one in others]
    mine = {dense.OURS: runs[BETWEEN], dense.DDP: runs[dense.DDP]}
    is_equal, told = dense.compare_models(mine)
    return is_equal, f"batch {batch}: {told}"


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks allreduce", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="runs of each candidate")
    parser.add_argument("--kib", default="4,64,1024,16384")
    parser.add_argument("--sides", default="2,4", help="numbers of processes")
    parser.add_argument("--batches", default="64,8", help="of the model; empty: none")
    parser.add_argument("--steps", type=int, default=200, help="of the model")
    parser.add_argument("--small", action="store_true", help="one run of little")
    flags = parser.parse_args(arguments[1:])
    if flags.small:
        flags.times, flags.kib, flags.sides, flags.steps = 1, "4,1024", "2", 40
    where = circumstances(arguments)  # before the load is our own
    figures: list[Figure] = []
    ratios: list[Ratio] = []
    wrong: list[str] = []
    told: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as name,
        fork_server(Path(name) / "forks", 1) as forks,
    ):
        for sides in map(int, flags.sides.split(",")):
            for kib in map(int, flags.kib.split(",")):
                case = Case(kib, sides, calls_of(kib))
                runs = measure(flags.times, case, Path(name), forks)
                add_case(case, runs, figures, ratios)
                for one, found in runs.items():
                    if not all(run.is_right for run in found):
                        wrong.append(f"{case.what}, {one.who}: another sum")
        for batch in map(int, filter(None, flags.batches.split(","))):
            plan = Plan(batch, 20, flags.steps)
            models = measure_model(flags.times, plan, Path(name), forks)
            is_equal, words = add_model(batch, models, figures, ratios)
            told.append(words)
            if not is_equal:
                wrong.append(words)
    told.append("; ".join(wrong) or "all sums are those of one order, to the bit")
    equality = "\n".join(told)
    print(f"{equality}\n\n{figure_table(figures)}\n\n{ratio_table(ratios)}")
    record = kept(figures, ratios, equality, is_equal=not wrong)
    print(f"\n{write('allreduce', {**where, **record})}")
    return 1 if wrong else 0

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

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.dense import compare as dense
from benchmarks.dense.loops import Plan
from benchmarks.harness.bench import TIMES, Found, Run, bench, flags_of, opt, result
from benchmarks.harness.environments import one_thread
from benchmarks.harness.figures import Figure, Kind, Ratio, compared
from benchmarks.harness.processes import job_config, wait_scripts
from benchmarks.tables.allreduce_loops import values_of
from paceline.trainer.peers.reduction import HOWS

SCRIPT = Path(__file__).with_name("allreduce_loops.py")
LIMIT_S = 300.0
WARM = 5
GLOO_WITHIN = 1e-5
BETWEEN = dense.OURS._replace(name="allreduce", who="paceline, 2 trainers, allreduce")


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


class Reduced(NamedTuple):
    """Milliseconds of a call: of the slowest side, and of processors, by all sides.

    What server and coordinator use is not among them. ``is_right``: so was the sum.
    """

    ms: float
    used_ms: float
    is_right: bool


def calls_of(kib: int) -> int:
    """So many that a run takes a second or so."""
    return max(20, min(400, 64 * 1024 // kib))


def run_once(candidate: Candidate, case: Case, folder: Path, run: Run) -> Reduced:
    """One run, each side in a process of its own."""
    kind = {"ours": "ours", "peer": "gloo", "floor": "floor"}[candidate.kind]
    words = (kind, *flags_of(**case._asdict(), warm=WARM, out=folder))
    if candidate.kind == "ours":
        config = job_config("sync", trainers=case.sides)
        run.job(SCRIPT, (*words, *flags_of(how=candidate.how)), folder, config)
    else:
        sides = [(*words, *flags_of(side=side)) for side in range(case.sides)]
        wait_scripts(run.forks(), SCRIPT, sides, one_thread(), folder / "log", LIMIT_S)
    told = [result(folder, side) for side in range(case.sides)]
    is_right = candidate.kind == "floor" or is_sum(candidate, case, folder)
    waited_s = max(one["seconds"] for one in told)
    return Reduced(1000 * waited_s, 1000 * sum(one["used_s"] for one in told), is_right)


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


def add_case(
    case: Case,
    runs: Mapping[Candidate, Sequence[Reduced]],
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


def add_model(
    batch: int,
    runs: Mapping[dense.Candidate, Sequence[dense.Trained]],
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


@bench(
    "allreduce",
    TIMES,
    opt("kib", (4, 64, 1024, 16384)),
    opt("sides", (2, 4), "numbers of processes"),
    opt("batches", (64, 8), "of the model; empty: none"),
    opt("steps", 200, "of the model"),
    opt("small", False, "one run of little"),
)
def main(run: Run) -> Found:
    """Reduce values of all sizes, then train the model."""
    flags = run.flags
    if flags.small:
        flags.times, flags.kib, flags.sides, flags.steps = 1, (4, 1024), (2,), 40
    figures, ratios = list[Figure](), list[Ratio]()
    wrong, told = list[str](), list[str]()
    for sides, kib in itertools.product(flags.sides, flags.kib):
        case = Case(kib, sides, calls_of(kib))
        runs = run.interleaved(
            CANDIDATES,
            lambda one, place, case=case: run_once(one, case, place, run),
            lambda one, found, case=case: f"{case.what}, {one.who}: {found.ms:.2f} ms",
        )
        add_case(case, runs, figures, ratios)
        wrong += [
            f"{case.what}, {one.who}: another sum"
            for one, found in runs.items()
            if not all(reduced.is_right for reduced in found)
        ]
    for batch in flags.batches:
        plan = Plan(batch, 20, flags.steps)
        data = dense.write_data(plan, run.folder)
        candidates = (dense.OURS, BETWEEN, dense.DDP, dense.FLOOR)
        models = dense.measure(run, candidates, plan, data)
        is_equal, words = add_model(batch, models, figures, ratios)
        told.append(words)
        wrong += [] if is_equal else [words]
    told.append("; ".join(wrong) or "all sums are those of one order, to the bit")
    return Found(figures, ratios, "\n".join(told), not wrong)

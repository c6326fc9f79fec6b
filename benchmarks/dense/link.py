"""A synchronous step over a slow link: one to four servers, and every codec.

::

    python -m benchmarks link [--times 5] [--mbit 100] [--servers 1,2,4]

Two trainers in one network namespace, coordinator and servers in another, and between them
a link of so many Mbit/s each way (`dense.network`), over TCP, with nothing lent. The
model is 784-256-256-10 (269,322 parameters) under Adam.

The floor of a step comes from what went over the link in the timed steps, counted at its
end with all headers. No value is new before the last gradient is there, but who has its
values may send while the other still fetches: so the floor is all gradients and one
trainer's values, or all values and one trainer's gradients, whichever takes longer at the
link's rate. Above it lie computing, deciding and waiting. Runs are interleaved, each in
processes of its own.

Needs Linux, root and iproute2; elsewhere it says so, measures nothing, and ends with 0.
The namespaces have no names, and are gone with the processes in them.

Exit status: 0; 1 if the model depends on the number of servers.
"""

import argparse
import contextlib
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast, final

import numpy as np

from benchmarks.dense.compare import HELD_OUT, draw_records
from benchmarks.dense.loops import SIDES, Plan
from benchmarks.dense.network import NEAR, NoNetworkError, SlowLink
from benchmarks.harness.apart import APART, CODECS, LOSSLESS, pace_of, who_of
from benchmarks.harness.environments import one_thread
from benchmarks.harness.figures import (
    Figure,
    Ratio,
    compared,
    figure_table,
    kept,
    ratio_table,
)
from benchmarks.harness.processes import fork_server, job_config, wait_job
from benchmarks.harness.record import circumstances, say, spread, write
from paceline.ids import role_kind
from paceline.launch.job.commands import Command, UserScript
from paceline.launch.processes.forkserver import ForkServer
from paceline.launch.processes.process import Child

SCRIPT = Path(__file__).with_name("link_loops.py")
WIDTH = 256
CODED_SERVERS = 2  # with a codec
LOSS_WITHIN = 1e-3  # among numbers of servers: their blocks differ, and so do last bits
STEP, BYTES = "a step of two trainers", "sent in a step"


class Case(NamedTuple):
    """A job's servers and codec."""

    servers: int
    codec: str

    def __str__(self) -> str:
        """For the tables."""
        return f"{self.servers} server{'s' * (self.servers > 1)}, {who_of(self.codec)}"


class Run(NamedTuple):
    """One job; what differs is that of the slower trainer."""

    step_ms: float
    floor_ms: float
    kib: float  # of a step of all trainers, both ways, with headers
    loss: float  # held out


@final
class TwoPlaces:
    """A fork server at each end of the link; trainers are far."""

    def __init__(self, near: ForkServer, far: ForkServer, link: SlowLink) -> None:
        self._near, self._far, self._link = near, far, link

    def start(self, role: str, command: Command, log: Path) -> Child | None:
        """See `ForkServer.start`."""
        if role_kind(role) != "trainer":
            return self._near.start(role, command, log)
        with self._link.inside():  # should a dead one be started again
            return self._far.start(role, command, log)


def run_once(
    case: Case, plan: Plan, data: Path, folder: Path, places: TwoPlaces, link: SlowLink
) -> Run:
    """One job over the link, in a fresh folder."""
    words = ("--data", str(data), "--out", str(folder), "--width", str(WIDTH))
    script = UserScript(str(SCRIPT), (*words, "--plan", json.dumps(plan._asdict())))
    config = job_config(pace_of(case.codec), trainers=SIDES, servers=case.servers)
    forks = cast(ForkServer, places)  # a launcher only starts
    wait_job(forks, config, script, one_thread(), folder, "tcp", NEAR)
    results = [
        json.loads((folder / f"result-{side}.json").read_text()) for side in range(SIDES)
    ]
    return run_of(results, plan.timed, link)


def run_of(results: Sequence[Mapping[str, float]], steps: int, link: SlowLink) -> Run:
    """What the trainers of a job wrote; each has counted the bytes of all."""
    seconds = max(result["seconds"] for result in results)
    up, down = (
        statistics.mean(result[name] for result in results) / steps
        for name in ("up_bytes", "down_bytes")
    )
    # One trainer's share of the one direction can never overlap all of the other.
    floor_bytes = max(up + down / len(results), down + up / len(results))
    return Run(
        1000 * seconds / steps,
        1000 * link.floor_s(floor_bytes),
        (up + down) / 1024,
        results[0]["loss"],
    )


def cases_of(servers: Sequence[int], codecs: Sequence[str]) -> list[Case]:
    """Every number of servers without a codec, and every codec with some."""
    coded = [Case(CODED_SERVERS, codec) for codec in codecs]
    return [*(Case(number, LOSSLESS) for number in servers), *coded]


def measure(
    times: int, cases: Sequence[Case], plan: Plan, link: SlowLink, folder: Path
) -> dict[Case, list[Run]]:
    """Interleaved runs."""
    data = folder / "data.npz"
    trained = SIDES * (plan.warm + plan.timed) * plan.batch
    np.savez(data, **draw_records(trained + HELD_OUT, seed=0))
    runs: dict[Case, list[Run]] = {case: [] for case in cases}
    with contextlib.ExitStack() as stack:
        near = stack.enter_context(fork_server(folder / "near", 1, [APART]))
        with link.inside():
            far = stack.enter_context(fork_server(folder / "far", 1))
        places = TwoPlaces(near, far, link)
        for again in range(times):
            for number, (case, found) in enumerate(runs.items()):
                place = folder / f"{number}-{again}"
                place.mkdir()
                found.append(run_once(case, plan, data, place, places, link))
                run = found[-1]
                told = f"{run.step_ms:.0f} ms a step, floor {run.floor_ms:.0f}"
                say(f"{again + 1}/{times}  {case}: {told}, {run.kib:,.0f} KiB")
    return runs


def figures_of(runs: Mapping[Case, Sequence[Run]]) -> list[Figure]:
    """Steps, each beside its own floor, and bytes."""
    figures = []
    for case, found in runs.items():
        steps, floors = (
            tuple(getattr(run, name) for run in found) for name in ("step_ms", "floor_ms")
        )
        figures.append(Figure(STEP, str(case), "ours", "ms", steps))
        figures.append(Figure(STEP, f"{case}: its bytes", "floor", "ms", floors))
    for case, found in runs.items():
        sizes = tuple(run.kib for run in found)
        figures.append(Figure(BYTES, str(case), "ours", "KiB", sizes))
    return figures


def ratios_of(runs: Mapping[Case, Sequence[Run]], figures: Sequence[Figure]) -> list[Ratio]:
    """Each step against its floor, and against that of the first case."""
    by_name = {(figure.what, figure.who): figure for figure in figures}
    first = by_name[STEP, str(next(iter(runs)))]
    steps = [by_name[STEP, str(case)] for case in runs]
    floors = [compared(step, by_name[STEP, f"{step.who}: its bytes"]) for step in steps]
    return [*floors, *(compared(step, first) for step in steps if step != first)]


def compare_models(runs: Mapping[Case, Sequence[Run]]) -> tuple[bool, str]:
    """Whether the number of servers changes what is learned; what codecs change is told."""
    losses = {
        case: spread([run.loss for run in found]).median for case, found in runs.items()
    }
    plain = [loss for case, loss in losses.items() if case.codec == LOSSLESS]
    is_equal = max(plain) <= min(plain) * (1 + LOSS_WITHIN)
    words = ", ".join(f"{case}: {loss:.4f}" for case, loss in losses.items())
    return is_equal, f"held-out loss: {words}"


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks link", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="runs of each case")
    parser.add_argument("--mbit", type=float, default=100.0, help="of the link, each way")
    parser.add_argument("--servers", default="1,2,4", help="numbers of them, no codec")
    parser.add_argument("--codecs", default=",".join(CODECS))
    parser.add_argument("--batch", type=int, default=32, help="of each trainer")
    parser.add_argument("--warm", type=int, default=2, help="steps before the clock")
    parser.add_argument("--steps", type=int, default=10, help="steps that are timed")
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)  # before the load is our own
    try:
        link = SlowLink(flags.mbit)
    except NoNetworkError as error:
        print(f"no slow link here, nothing is measured: {error}")
        return 0
    servers = [int(number) for number in flags.servers.split(",")]
    codecs = [name for name in flags.codecs.split(",") if name]
    plan = Plan(flags.batch, flags.warm, flags.steps, task=flags.warm + flags.steps)
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as name:
        runs = measure(flags.times, cases_of(servers, codecs), plan, link, Path(name))
    figures = figures_of(runs)
    ratios = ratios_of(runs, figures)
    is_equal, told = compare_models(runs)
    told = f"{flags.mbit:g} Mbit/s each way; {told}"
    print(f"{told}\n\n{figure_table(figures)}\n\n{ratio_table(ratios)}")
    found = kept(figures, ratios, told, is_equal=is_equal)
    print(f"\n{write('link', {**where, **found})}")
    return 0 if is_equal else 1

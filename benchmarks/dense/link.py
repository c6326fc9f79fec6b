"""A synchronous step over a slow link: one to four servers, and every codec.

::

    python -m benchmarks link [--times 5] [--mbit 100] [--servers 1,2,4]

Two trainers on one machine, coordinator and servers on another (network namespaces), and
between them a link of so many Mbit/s each way (`dense.network`), over TCP, with nothing
lent. The model is 784-256-256-10 (269,322 parameters) under Adam.

The floor of a step comes from what went over the link in the timed steps, counted at its
end with all headers. No value is new before the last gradient is there, but who has its
values may send while the other still fetches: so the floor is all gradients and one
trainer's values, or all values and one trainer's gradients, whichever takes longer at the
link's rate. Above it lie computing, deciding and waiting. Runs are interleaved, each in
processes of its own.

Needs Linux, root and iproute2; elsewhere it says so, measures nothing, and ends with 0.

Exit status: 0; 1 if the model depends on the number of servers.
"""

import contextlib
import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast, final

from benchmarks.dense.compare import write_data
from benchmarks.dense.loops import SIDES, Plan
from benchmarks.dense.network import Link, slow_link
from benchmarks.harness.apart import APART, CODECS, LOSSLESS, pace_of, who_of
from benchmarks.harness.bench import Found, Run, bench, flags_of, opt, result
from benchmarks.harness.environments import one_thread
from benchmarks.harness.figures import Figure, Measure, Ratio, compared, measured, medians
from benchmarks.harness.processes import fork_server, job_config, wait_job
from paceline.ids import role_kind
from paceline.launch.job.commands import Command, UserScript
from paceline.launch.processes.forkserver import ForkServer
from paceline.launch.processes.process import Child
from paceline.testing.machines import why_no_machines

SCRIPT = Path(__file__).with_name("loops.py")
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


class Trained(NamedTuple):
    """One job; what differs is that of the slower trainer."""

    step_ms: float
    floor_ms: float
    kib: float  # of a step of all trainers, both ways, with headers
    loss: float  # held out


@final
class TwoPlaces:
    """A fork server at each end of the link; trainers are far."""

    def __init__(self, near: ForkServer, far: ForkServer, link: Link) -> None:
        self._near, self._far, self._link = near, far, link

    def start(self, role: str, command: Command, log: Path) -> Child | None:
        """See `ForkServer.start`."""
        if role_kind(role) != "trainer":
            return self._near.start(role, command, log)
        with self._link.far.inside():  # should a dead one be started again
            return self._far.start(role, command, log)


def run_once(
    case: Case, plan: Plan, data: Path, folder: Path, places: TwoPlaces, link: Link
) -> Trained:
    """One job over the link, in a fresh folder."""
    told = json.dumps(plan._asdict())
    words = ("link", *flags_of(data=data, out=folder, width=WIDTH, plan=told))
    script = UserScript(str(SCRIPT), words)
    config = job_config(pace_of(case.codec), trainers=SIDES, servers=case.servers)
    forks = cast(ForkServer, places)  # a launcher only starts
    wait_job(forks, config, script, one_thread(), folder, "tcp", link.near.address)
    results = [result(folder, side) for side in range(SIDES)]
    return run_of(results, plan.timed, link)


def run_of(results: Sequence[Mapping[str, float]], steps: int, link: Link) -> Trained:
    """What the trainers of a job wrote; each has counted the bytes of all."""
    seconds = max(result["seconds"] for result in results)
    up, down = (
        statistics.mean(result[name] for result in results) / steps
        for name in ("up_bytes", "down_bytes")
    )
    # One trainer's share of the one direction can never overlap all of the other.
    floor_bytes = max(up + down / len(results), down + up / len(results))
    return Trained(
        1000 * seconds / steps,
        1000 * link.floor_s(floor_bytes),
        (up + down) / 1024,
        results[0]["loss"],
    )


def cases_of(servers: Sequence[int], codecs: Sequence[str]) -> list[Case]:
    """Every number of servers without a codec, and every codec with some."""
    coded = [Case(CODED_SERVERS, codec) for codec in codecs]
    return [*(Case(number, LOSSLESS) for number in servers), *coded]


def figures_of(runs: Mapping[Case, Sequence[Trained]]) -> list[Figure]:
    """Steps, each beside its own floor, and bytes."""
    steps = measured(runs, Measure(STEP, "ms", lambda run: run.step_ms))
    floors = measured(
        runs,
        Measure(STEP, "ms", lambda run: run.floor_ms),
        who=lambda case: f"{case}: its bytes",
        kind=lambda _: "floor",
    )
    sizes = measured(runs, Measure(BYTES, "KiB", lambda run: run.kib))
    return [*itertools.chain(*zip(steps, floors, strict=True)), *sizes]


def ratios_of(
    runs: Mapping[Case, Sequence[Trained]], figures: Sequence[Figure]
) -> list[Ratio]:
    """Each step against its floor, and against that of the first case."""
    by_name = {(figure.what, figure.who): figure for figure in figures}
    first = by_name[STEP, str(next(iter(runs)))]
    steps = [by_name[STEP, str(case)] for case in runs]
    floors = [compared(step, by_name[STEP, f"{step.who}: its bytes"]) for step in steps]
    return [*floors, *(compared(step, first) for step in steps if step != first)]


def compare_models(runs: Mapping[Case, Sequence[Trained]]) -> tuple[bool, str]:
    """Whether the number of servers changes what is learned; what codecs change is told."""
    losses = medians(runs, lambda run: run.loss)
    plain = [loss for case, loss in losses.items() if case.codec == LOSSLESS]
    is_equal = max(plain) <= min(plain) * (1 + LOSS_WITHIN)
    words = ", ".join(f"{case}: {loss:.4f}" for case, loss in losses.items())
    return is_equal, f"held-out loss: {words}"


def measure(
    run: Run, cases: Sequence[Case], plan: Plan, link: Link
) -> dict[Case, list[Trained]]:
    """Interleaved runs."""
    data = write_data(plan, run.folder)
    with contextlib.ExitStack() as stack:
        near = stack.enter_context(fork_server(run.folder / "near", 1, (APART,)))
        with link.far.inside():
            far = stack.enter_context(fork_server(run.folder / "far", 1))
        places = TwoPlaces(near, far, link)

        def once(case: Case, place: Path) -> Trained:
            return run_once(case, plan, data, place, places, link)

        def told(case: Case, one: Trained) -> str:
            took = f"{one.step_ms:.0f} ms a step, floor {one.floor_ms:.0f}"
            return f"{case}: {took}, {one.kib:,.0f} KiB"

        return run.interleaved(cases, once, told)


@bench(
    "link",
    opt("times", 5, "runs of each case"),
    opt("mbit", 100.0, "of the link, each way"),
    opt("servers", (1, 2, 4), "numbers of them, no codec"),
    opt("codecs", CODECS),
    opt("batch", 32, "of each trainer"),
    opt("warm", 2, "steps before the clock"),
    opt("steps", 10, "steps that are timed"),
)
def main(run: Run) -> Found | int:
    """Measure, where there can be such a link."""
    flags = run.flags
    if why := why_no_machines():
        print(f"nothing is measured: {why}")
        return 0
    plan = Plan(flags.batch, flags.warm, flags.steps, task=flags.warm + flags.steps)
    with slow_link(flags.mbit) as link:
        runs = measure(run, cases_of(flags.servers, flags.codecs), plan, link)
    figures = figures_of(runs)
    is_equal, told = compare_models(runs)
    told = f"{flags.mbit:g} Mbit/s each way; {told}"
    return Found(figures, ratios_of(runs, figures), told, is_equal)

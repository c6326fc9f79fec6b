"""A pull and a push of 16 MiB between two machines, beside a plain Python stream.

::

    python -m benchmarks far [--times 5] [--trips 40]

======================  ================================================================
large push              until the bytes lie in the other machine's memory and that is known
large pull              asked for, and landed in memory that was there before
processor               what this end works for a GiB of them
======================  ================================================================

The machines are network namespaces with a pair of veth devices and a bridge between them.
The plain stream is one TCP connection of blocking calls: no header, no check, nothing
decided. Ours is the bare transport, plain (with a checksum of every frame) and within TLS
1.3. Runs are interleaved, each in processes of its own.

Needs Linux, root and iproute2; elsewhere it says so, measures nothing, and ends with 0.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.bench import TIMES, Found, Run, bench, opt, result
from benchmarks.harness.environments import one_thread
from benchmarks.harness.figures import Figure, Kind, Measure, Ratio, compared, measured
from benchmarks.transport.timing import Plan
from paceline.testing.machines import Machine, Machines, why_no_machines

PORT = 7070
LIMIT_S = 120.0
ROOT = Path(__file__).resolve().parents[2]
WHAT = ("large push", "large pull")


class Way(NamedTuple):
    """How bytes are carried: by which module beside this one, plain or not."""

    who: str
    kind: Kind
    module: str
    is_plain: bool = True


STREAM = Way("plain Python stream", "floor", "floors")
PLAIN = Way("paceline, --plain", "ours", "with_paceline")
TLS = Way("paceline, TLS", "ours", "with_paceline", is_plain=False)
WAYS = (STREAM, PLAIN, TLS)
GOALS = {(PLAIN.who, what): f"far-{what.replace(' ', '-')}" for what in WHAT}

Runs = Mapping[Way, Sequence[Mapping[str, float]]]


def run_once(way: Way, plan: Plan, folder: Path, machines: Machines) -> dict[str, float]:
    """One run in processes of its own: {what: seconds of a trip}.

    Raises:
        RuntimeError: it failed; its own words are in the message.
    """
    near, far = machines[0], machines[1]
    place = f"tcp:{far.ipv4}:{PORT}"
    out, log = folder / "result.json", folder / "log"
    words = ["--place", place, "--plan", json.dumps(plan._asdict()), "--out", str(out)]
    environment = {
        **os.environ,
        **one_thread(),
        "PACELINE_PLAIN": "1" if way.is_plain else "",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
    }

    def start(machine: Machine, role: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", f"benchmarks.transport.{way.module}", role]
        return machine.popen([*command, *words], log, env=environment, cwd=ROOT)

    server, client = start(far, "server"), start(near, "client")
    try:
        code = client.wait(LIMIT_S)
    finally:
        for process in (server, client):
            process.send_signal(signal.SIGKILL)
            process.wait(LIMIT_S)
    if code:
        raise RuntimeError(f"{way.who}: status {code}\n{log.read_text()}")
    found: dict[str, float] = result(folder)
    return found


def figures_of(runs: Runs, num_bytes: int) -> list[Figure]:
    """Trips, and this end's processor time for a GiB."""
    per_gib = (1 << 30) / num_bytes
    trips = [Measure(what, "ms", lambda run, w=what: 1e3 * run[w]) for what in WHAT]
    works = [
        Measure(f"{what}, processor", "s/GiB", lambda run, w=what: per_gib * run[_work(w)])
        for what in WHAT
    ]
    return measured(
        runs, *trips, *works, who=lambda way: way.who, kind=lambda way: way.kind
    )


def _work(what: str) -> str:
    return f"{what}, processor"


def ratios_of(figures: Sequence[Figure]) -> list[Ratio]:
    """Both of ours against the plain stream; goals are those of what is not enciphered."""
    by_name = {(figure.what, figure.who): figure for figure in figures}
    return [
        compared(
            by_name[what, way.who],
            by_name[what, STREAM.who],
            GOALS.get((way.who, what), ""),
        )
        for what in (*WHAT, *map(_work, WHAT))
        for way in (PLAIN, TLS)
    ]


@bench("far", TIMES, opt("trips", 40, "of each run"))
def main(run: Run) -> Found | int:
    """Measure, where there can be two machines."""
    if why := why_no_machines():
        print(f"nothing is measured: {why}")
        return 0
    plan = Plan(small_trips=1, large_trips=run.flags.trips)

    def told(way: Way, trips: Mapping[str, float]) -> str:
        took = ", ".join(f"{what} {1e3 * trips[what]:.1f} ms" for what in WHAT)
        return f"{way.who}: {took}"

    with Machines(2) as machines:
        runs = run.interleaved(
            WAYS, lambda way, place: run_once(way, plan, place, machines), told
        )
    figures = figures_of(runs, plan.large_bytes)
    said = "every stream gave back the bytes that were pushed before any clock ran"
    return Found(figures, ratios_of(figures), said, more={"plan": plan._asdict()})

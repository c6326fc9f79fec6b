"""How many a coordinator can lead: connections, leases and ticks a second, tasks.

::

    python -m benchmarks coordinator_scale [--trainers 1000] [--times 5]

=====================  ==============================================================
figure                 what
=====================  ==============================================================
connect                seconds until all trainers have shaken hands
memory                 of the process, for each connection and all that it brings
ticks                  of batches within a task: nothing is journalled
leases                 ticks that end a task: the end and the next lease are journalled
                       before the answer
echo                   the floor: the same messages to a service that does nothing
queue                  a lease and its end without transport, among few and many tasks, one
                       of which takes for ever; and what such a queue weighs in a cut
=====================  ==============================================================

Rates are what one thread of a crowd reaches that shares the machine with the coordinator;
processor time for each request is the coordinator's own. Medians; all goes to
``build/bench``.

Exit status: 0.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import psutil

from benchmarks.harness.figures import (
    Figure,
    Kind,
    Ratio,
    compared,
    judged,
    kept,
    ratio_table,
)
from benchmarks.harness.goals import wanted
from benchmarks.harness.record import ROOT, circumstances, say, spread, table, write
from benchmarks.scale.coordinator_queue import QueueFigure, measure_queue
from benchmarks.scale.crowd import Crowd, LightServer, wait_at_work
from paceline.messages.shared import StageSpec

TASKS = 1_000_000
QUEUE = "a lease and its end"
WARM_UP_S = 0.5


class Rates(NamedTuple):
    """What was reached with one process, and what it cost there."""

    connect_s: float
    connection_kib: float
    per_s: list[float]
    cpu_us: list[float]  # of the process, for each request


@contextlib.contextmanager
def process(kind: str, trainers: int) -> Iterator[tuple[str, psutil.Process]]:
    """A process that listens: its address, and itself."""
    with tempfile.TemporaryDirectory(prefix="paceline-scale-") as name:
        command = [sys.executable, "-m", "benchmarks.scale.coordinator_process", kind, name]
        child = subprocess.Popen(
            [*command, str(trainers)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            if child.stdout.readline() != "ready\n":
                raise RuntimeError(f"the {kind} did not start")
            yield f"unix:{name}/{kind}.sock", psutil.Process(child.pid)
        finally:
            child.stdin.close()
            child.wait()
            child.stdout.close()


def measure(kind: str, batches: int, trainers: int, times: int, seconds: float) -> Rates:
    """Rates of ticks, of tasks with so many batches.

    Args:
        kind: of the process, ``coordinator`` or ``echo``.
        batches: of a task.
        trainers: how many there are.
        times: of measuring.
        seconds: for each.
    """
    stage = StageSpec(0, TASKS * batches, 1, batches, 1, True, 0, "data")
    with process(kind, trainers) as (address, measured), contextlib.ExitStack() as stack:
        before = measured.memory_full_info().uss
        start_s = time.perf_counter()
        crowd = Crowd(address, trainers)
        stack.callback(crowd.close)
        connect_s = time.perf_counter() - start_s
        if kind == "echo":
            crowd.pretend(stage)
        else:
            server = LightServer(address)
            stack.callback(server.close)
            wait_at_work(crowd, stage)
        crowd.keep_ticking(WARM_UP_S)
        grown = measured.memory_full_info().uss - before
        per_s, cpu_us = [], []
        for _ in range(times):
            cpu_s, start_s = sum(measured.cpu_times()[:2]), time.perf_counter()
            count = crowd.keep_ticking(seconds)
            took_s = time.perf_counter() - start_s
            per_s.append(count / took_s)
            cpu_us.append((sum(measured.cpu_times()[:2]) - cpu_s) / count * 1e6)
    return Rates(connect_s, grown / trainers / 1024, per_s, cpu_us)


def report(rates: dict[str, Rates], queue: Sequence[QueueFigure]) -> str:
    """The tables for people."""
    rows = [["", "connect s", "KiB each", "a second", "least", "most", "CPU us each"]]
    for name, found in rates.items():
        reached = spread(found.per_s)
        cells = [f"{found.connect_s:.2f}", f"{found.connection_kib:.1f}"]
        cells += [f"{value:,.0f}" for value in reached[:3]]
        rows.append([name, *cells, f"{statistics.median(found.cpu_us):.1f}"])
    lines = [["queue", "us a lease and its end", "grown MiB", "bytes in a cut"]]
    for figure in queue:
        cells = [
            f"{figure.lease_us:.1f}",
            f"{figure.grown_mib:.1f}",
            f"{figure.cut_bytes:,}",
        ]
        lines.append([f"{figure.tasks:,} tasks done behind one", *cells])
    return f"{table(rows)}\n\n{table(lines)}"


def figures_of(rates: dict[str, Rates], queue: Sequence[QueueFigure]) -> list[Figure]:
    """Rates, what they cost, and the queue; the echo is the floor."""
    figures = []
    for name, found in rates.items():
        kind: Kind = "floor" if name == "echo" else "ours"
        cost = tuple(found.cpu_us)
        per_s = Figure("requests", name, kind, "a second", tuple(found.per_s), True)
        figures += [per_s, Figure("processor time of a request", name, kind, "us", cost)]
    for tasks in dict.fromkeys(one.tasks for one in queue):
        each = tuple(one.lease_us for one in queue if one.tasks == tasks)
        figures.append(Figure(QUEUE, f"{tasks:,} tasks", "ours", "us", each))
    return sorted(figures, key=lambda figure: figure.what)


def ratios_of(figures: Sequence[Figure]) -> list[Ratio]:
    """Ticks and leases a second, and a long queue against a short one."""
    rates = {figure.who: figure for figure in figures if figure.what == "requests"}
    short, long = (figure for figure in figures if figure.what == QUEUE)
    reached = [judged(rates[name], wanted(name)) for name in ("ticks", "leases")]
    return [*reached, compared(long, short, wanted("queue"))]


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks coordinator_scale")
    parser.add_argument("--trainers", type=int, default=1000)
    parser.add_argument("--times", type=int, default=5, help="measurements of each rate")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--tasks", type=int, default=TASKS, help="in the long queue")
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)  # before the load is our own
    many = (flags.trainers, flags.times, flags.seconds)
    rates = {}
    for name, kind, batches in (
        ("echo", "echo", 1_000_000),
        ("ticks", "coordinator", 1_000_000),
        ("leases", "coordinator", 1),
    ):
        say(f"{name}: {flags.trainers} trainers")
        rates[name] = measure(kind, batches, *many)
    say("the queue")
    # Which is first takes turns with which is second.
    queue = [measure_queue(n) for _ in range(flags.times) for n in (1000, flags.tasks)]
    print(report(rates, queue))
    figures = figures_of(rates, queue)
    ratios = ratios_of(figures)
    print(f"\n{ratio_table(ratios)}")
    told = f"{flags.trainers:,} trainers were led, by one coordinator"
    record = {
        **where,
        "trainers": flags.trainers,
        "rates": {name: found._asdict() for name, found in rates.items()},
        "queue": [figure._asdict() for figure in queue],
        **kept(figures, ratios, told, is_equal=True),
    }
    print(f"\n{write('coordinator_scale', record)}")
    return 0

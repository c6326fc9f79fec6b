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
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from benchmarks.harness.bench import Found, Run, bench, opt
from benchmarks.harness.figures import Figure, Kind, Ratio, compared, judged
from benchmarks.harness.record import say
from benchmarks.scale.coordinator_queue import QueueFigure, measure_queue
from benchmarks.scale.crowd import Crowd, LightServer, wait_at_work
from benchmarks.scale.process import REQUESTS, Rates, measured_process, measured_rates
from paceline.messages.shared import StageSpec

TASKS = 1_000_000
QUEUE = "a lease and its end"
WARM_UP_S = 0.5


class Led(NamedTuple):
    """What a crowd of one process came to."""

    connect_s: float
    connection_kib: float
    rates: Rates


def measure(kind: str, batches: int, trainers: int, times: int, seconds: float) -> Led:
    """Rates of ticks, of tasks with so many batches.

    Args:
        kind: of the process, ``coordinator`` or ``echo``.
        batches: of a task.
        trainers: how many there are.
        times: of measuring.
        seconds: for each.
    """
    stage = StageSpec(0, TASKS * batches, 1, batches, 1, True, 0, "data")
    command = ("coordinator_process", kind, trainers)
    with measured_process(*command) as (address, measured), ExitStack() as stack:
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
        rates = measured_rates(measured, lambda: crowd.keep_ticking(seconds), times)
    return Led(connect_s, grown / trainers / 1024, rates)


def figures_of(led: dict[str, Led], queue: Sequence[QueueFigure]) -> list[Figure]:
    """Rates, what they cost, and the queue; the echo is the floor."""
    figures = []
    for name, found in led.items():
        kind: Kind = "floor" if name == "echo" else "ours"
        figures += [
            *found.rates.figures(name, kind),
            Figure("all have shaken hands", name, kind, "s", (found.connect_s,)),
            Figure("memory of a connection", name, kind, "KiB", (found.connection_kib,)),
        ]
    for tasks in dict.fromkeys(one.tasks for one in queue):
        who, seen = f"{tasks:,} tasks", [one for one in queue if one.tasks == tasks]
        figures += [
            Figure(QUEUE, who, "ours", "us", tuple(one.lease_us for one in seen)),
            Figure(
                "it has grown", who, "ours", "MiB", tuple(one.grown_mib for one in seen)
            ),
            Figure("it in a cut", who, "ours", "bytes", (float(seen[0].cut_bytes),)),
        ]
    return sorted(figures, key=lambda figure: figure.what)


def ratios_of(figures: Sequence[Figure]) -> list[Ratio]:
    """Ticks and leases a second, and a long queue against a short one."""
    rates = {figure.who: figure for figure in figures if figure.what == REQUESTS}
    short, long = (figure for figure in figures if figure.what == QUEUE)
    reached = [judged(rates[name], name) for name in ("ticks", "leases")]
    return [*reached, compared(long, short, "queue")]


@bench(
    "coordinator_scale",
    opt("trainers", 1000),
    opt("times", 5, "measurements of each rate"),
    opt("seconds", 2.0, "of each measurement"),
    opt("tasks", TASKS, "in the long queue"),
)
def main(run: Run) -> Found:
    """Measure the floor, both rates, and queues without a coordinator."""
    flags, led = run.flags, dict[str, Led]()
    for name, kind, batches in (
        ("echo", "echo", 1_000_000),
        ("ticks", "coordinator", 1_000_000),
        ("leases", "coordinator", 1),
    ):
        say(f"{name}: {flags.trainers} trainers")
        led[name] = measure(kind, batches, flags.trainers, flags.times, flags.seconds)
    say("the queue")
    # Which is first takes turns with which is second.
    queue = [measure_queue(n) for _ in range(flags.times) for n in (1000, flags.tasks)]
    figures = figures_of(led, queue)
    told = f"{flags.trainers:,} trainers were led, by one coordinator"
    return Found(figures, ratios_of(figures), told, more={"trainers": flags.trainers})

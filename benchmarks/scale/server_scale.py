"""How many trainers a server can have: connections, pushes and pulls, memory.

::

    python -m benchmarks server_scale [--trainers 1000] [--times 5]

=====================  ==============================================================
figure                 what
=====================  ==============================================================
connect                seconds until all trainers have shaken hands
memory                 of the process, for each connection and all that it brings
push                   of a gradient of 64 numbers, applied and acknowledged
pull                   of 64 numbers, over the socket
growth                 of the process over all pushes and pulls
slow reader            growth while one trainer asks for a large value again and again,
                       reads no answer, and another one is served
=====================  ==============================================================

Rates are what one thread of a crowd reaches that shares the machine with the server;
processor time for each request is the server's own. All goes to ``build/bench``.
"""

import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, final

import msgspec
import numpy as np

from benchmarks.harness.bench import Found, Run, bench, opt
from benchmarks.harness.figures import Figure, Ratio, judged
from benchmarks.scale.lines import RUN, Line, Lines
from benchmarks.scale.process import Rates, measured_process, measured_rates
from paceline.ids import Span, Window
from paceline.messages.data import DataReply, Pull, Pulled, Push, Pushed
from paceline.transport.frames import DATA_LIMITS
from paceline.transport.handshake import Hello, Welcome

ELEMENTS, LARGE_ELEMENTS = 64, 1 << 20
ASKS_UNREAD = 64  # 256 MiB, were all answered
_MIB = 1 << 20
_decoder: msgspec.msgpack.Decoder[msgspec.Struct] = msgspec.msgpack.Decoder(
    DataReply | Welcome
)


class Served(NamedTuple):
    """All figures."""

    connect_s: float
    connection_kib: float
    push: Rates
    pull: Rates
    grown_mib: float
    slow_grown_mib: list[float]  # of a server each


@final
class LightTrainer(Line):
    """Pushes and pulls one part."""

    def __init__(self, address: str, number: int) -> None:
        """Connect and say hello."""
        self._incarnation, self._task, self._pushes = number + 1, number, 0
        hello = Hello(run=RUN, role=f"trainer-{number}", incarnation=number + 1)
        super().__init__(address, hello, _decoder, DATA_LIMITS)

    def push(self) -> None:
        """Send the gradient of the next batch of a task of its own."""
        batch = self._pushes
        self._pushes += 1
        push = Push(
            incarnation=self._incarnation,
            timeline=0,
            part=0,
            number=self._pushes,
            window=Window(0, 0, (Span(self._task, batch, batch),)),
            records=1,
            hyper=({"lr": 1.0},),
            blocks=(0,),
        )
        self.say(push, np.ones(ELEMENTS, np.float32).data)

    def pull(self) -> None:
        """Ask for the values."""
        self.say(Pull(incarnation=self._incarnation, timeline=0, part=0))

    def ask_unread(self, count: int) -> None:
        """Ask for the values again and again, as far as the server listens."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(count):
                self.pull()


def crowd_of(address: str, trainers: int) -> Lines[LightTrainer]:
    """So many, who have shaken hands."""
    return Lines([LightTrainer(address, number) for number in range(trainers)])


def measure(trainers: int, times: int, seconds: float) -> Served:
    """All figures of a crowd."""
    server = measured_process("server_process", ELEMENTS)
    with server as (address, process), contextlib.ExitStack() as stack:
        before = process.memory_full_info().uss
        start_s = time.perf_counter()
        crowd = crowd_of(address, trainers)
        stack.callback(crowd.close)
        connect_s = time.perf_counter() - start_s
        crowd.keep(LightTrainer.push, Pushed, 0.0)
        connected = process.memory_full_info().uss
        push, pull = (
            measured_rates(process, partial(crowd.keep, say, answer, seconds), times)
            for say, answer in ((LightTrainer.push, Pushed), (LightTrainer.pull, Pulled))
        )
        grown = process.memory_full_info().uss - connected
    slow = [_slow_growth(seconds) / _MIB for _ in range(times)]
    each_kib = (connected - before) / trainers / 1024
    return Served(connect_s, each_kib, push, pull, grown / _MIB, slow)


def _slow_growth(seconds: float) -> float:
    """Bytes by which a server grows while one reads no answer, and another is served."""
    server = measured_process("server_process", LARGE_ELEMENTS)
    with server as (address, process), contextlib.ExitStack() as stack:
        crowd = crowd_of(address, 2)
        stack.callback(crowd.close)
        before = process.memory_full_info().uss
        slow, _ = crowd.all
        crowd.forget(slow)
        slow.ask_unread(ASKS_UNREAD)
        crowd.keep(LightTrainer.pull, Pulled, seconds)
        return float(process.memory_full_info().uss - before)


def figures_of(found: Served) -> list[Figure]:
    """Rates and what they cost, and memory."""
    figures = [*found.push.figures("push"), *found.pull.figures("pull")]
    slow, grown = tuple(found.slow_grown_mib), (found.grown_mib,)
    each_kib = (found.connection_kib,)
    figures += [
        Figure("growth", "by a slow reader", "ours", "MiB", slow),
        Figure("growth", "over all requests", "ours", "MiB", grown),
        Figure("all have shaken hands", "paceline", "ours", "s", (found.connect_s,)),
        Figure("memory of a connection", "paceline", "ours", "KiB", each_kib),
    ]
    return sorted(figures, key=lambda figure: figure.what, reverse=True)


def ratios_of(figures: Sequence[Figure], trainers: int) -> list[Ratio]:
    """How many were served, and what a slow one costs."""
    push = next(figure for figure in figures if figure.who == "push")
    slow = next(figure for figure in figures if figure.who == "by a slow reader")
    most = max(slow.values)
    return [judged(push, "crowd", trainers), judged(slow, "slow", most)]


@bench(
    "server_scale",
    opt("trainers", 1000),
    opt("times", 5, "measurements of each rate"),
    opt("seconds", 2.0, "of each measurement"),
    must=["slow"],
)
def main(run: Run) -> Found:
    """Measure a crowd, and a slow reader."""
    trainers = run.flags.trainers
    figures = figures_of(measure(trainers, run.flags.times, run.flags.seconds))
    told = f"every push and pull of {trainers:,} trainers was answered"
    more = {"trainers": trainers}
    return Found(figures, ratios_of(figures, trainers), told, more=more)

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

Exit status: 0; 1 if memory grows by more by a slow reader than the goal allows.
"""

import argparse
import contextlib
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, final

import msgspec
import numpy as np
import psutil

from benchmarks.harness.figures import Figure, Ratio, judged, kept, ratio_table
from benchmarks.harness.goals import wanted
from benchmarks.harness.record import ROOT, circumstances, say, spread, table, write
from benchmarks.scale.server_process import RUN
from paceline.ids import Span, Window
from paceline.messages.data import DataReply, Pull, Pulled, Push, Pushed
from paceline.messages.shared import Message
from paceline.transport.frames import DATA_LIMITS, Header, Kind, Preamble, encode_frame
from paceline.transport.handshake.handshake import Hello, Welcome
from paceline.transport.requests import allocate
from paceline.transport.streams.receiving import FrameReader, Placed

ELEMENTS, LARGE_ELEMENTS = 64, 1 << 20
ANSWER_S = 60.0
ASKS_UNREAD = 64  # 256 MiB, were all answered
_MIB = 1 << 20
_decoder: msgspec.msgpack.Decoder[msgspec.Struct] = msgspec.msgpack.Decoder(
    DataReply | Welcome
)


class Rates(NamedTuple):
    """What was reached, and what it cost the server."""

    per_s: list[float]
    cpu_us: list[float]  # of the process, for each request


class Found(NamedTuple):
    """All figures."""

    connect_s: float
    connection_kib: float
    push: Rates
    pull: Rates
    grown_mib: float
    slow_grown_mib: list[float]  # of a server each


@final
class LightTrainer:
    """One connection, one request on its way."""

    def __init__(self, address: str, number: int) -> None:
        """Connect and say hello; the answer is the first frame that comes."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(address.removeprefix("unix:"))
        self.socket.setblocking(False)
        self._incarnation, self._task = number + 1, number
        self._number = self._pushes = 0
        self._reader = FrameReader(DATA_LIMITS, _place)
        name = f"trainer-{number}"
        self._say(Hello(run=RUN, role=name, incarnation=number + 1), kind=Kind.HELLO)

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
        self._say(push, np.ones(ELEMENTS, np.float32))

    def pull(self) -> None:
        """Ask for the values."""
        self._say(Pull(incarnation=self._incarnation, timeline=0, part=0))

    def ask_unread(self, count: int) -> None:
        """Ask for the values again and again, as far as the server listens."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(count):
                self.pull()

    def hear(self) -> msgspec.Struct | None:
        """The answer, if it is there.

        Raises:
            RuntimeError: it is no answer.
        """
        frame = self._reader.receive(self.socket)
        if frame is None:
            return None
        if frame.kind is Kind.ERROR or frame.message is None:
            raise RuntimeError(f"turned away: {frame}")
        return frame.message

    def _say(
        self,
        message: msgspec.Struct,
        *buffers: np.ndarray[tuple[int], np.dtype[np.float32]],
        kind: Kind = Kind.REQUEST,
    ) -> None:
        self._number += 1
        pieces = encode_frame(kind, self._number, message, buffers, DATA_LIMITS)
        self.socket.sendall(b"".join(pieces))


def _place(preamble: Preamble, header: Header) -> Placed:
    del preamble
    return _decoder.decode(header.message), allocate(header.sizes)


@final
class Crowd:
    """Trainers that are read together."""

    def __init__(self, address: str, trainers: int) -> None:
        """Connect all of them, and shake hands."""
        self._epoll = select.epoll()
        self.trainers = [LightTrainer(address, number) for number in range(trainers)]
        self._by_fd = {trainer.socket.fileno(): trainer for trainer in self.trainers}
        for fd in self._by_fd:
            self._epoll.register(fd, select.EPOLLIN)
        self._hear(len(self.trainers), Welcome, lambda _: False)

    def keep(
        self, say: Callable[[LightTrainer], None], answer: type[Message], seconds: float
    ) -> int:
        """Everybody says something as fast as it is answered; the number of answers."""
        ends_s = time.perf_counter() + seconds

        def again(trainer: LightTrainer) -> bool:
            if time.perf_counter() >= ends_s:
                return False
            say(trainer)
            return True

        for trainer in self.trainers:
            say(trainer)
        return self._hear(len(self.trainers), answer, again)

    def forget(self, trainer: LightTrainer) -> None:
        """One is read no more."""
        self.trainers.remove(trainer)
        self._epoll.unregister(trainer.socket.fileno())

    def close(self) -> None:
        """Everybody hangs up."""
        for trainer in self._by_fd.values():
            trainer.socket.close()
        self._epoll.close()

    def _hear(
        self,
        under_way: int,
        answer: type[msgspec.Struct],
        again: Callable[[LightTrainer], bool],
    ) -> int:
        count = 0
        while under_way:
            events = self._epoll.poll(ANSWER_S)
            if not events:
                raise TimeoutError(f"nothing was heard for {ANSWER_S:g} s")
            for fd, _ in events:
                trainer = self._by_fd[fd]
                reply = trainer.hear()
                if reply is None:
                    continue
                if not isinstance(reply, answer):
                    raise RuntimeError(f"expected {answer.__name__}, got {reply}")
                count += 1
                under_way -= not again(trainer)
        return count


@contextlib.contextmanager
def server(elements: int) -> Iterator[tuple[str, psutil.Process]]:
    """A server that listens: its address, and itself."""
    with tempfile.TemporaryDirectory(prefix="paceline-scale-") as name:
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scale.server_process", name, str(elements)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            if child.stdout.readline() != "ready\n":
                raise RuntimeError("the server did not start")
            yield f"unix:{name}/server.sock", psutil.Process(child.pid)
        finally:
            child.stdin.close()
            child.wait()
            child.stdout.close()


def measure(trainers: int, times: int, seconds: float) -> Found:
    """All figures of a crowd."""
    with server(ELEMENTS) as (address, process), contextlib.ExitStack() as stack:
        before = process.memory_full_info().uss
        start_s = time.perf_counter()
        crowd = Crowd(address, trainers)
        stack.callback(crowd.close)
        connect_s = time.perf_counter() - start_s
        crowd.keep(LightTrainer.push, Pushed, 0.0)
        connected = process.memory_full_info().uss
        push = _rates(process, crowd, LightTrainer.push, Pushed, times, seconds)
        pull = _rates(process, crowd, LightTrainer.pull, Pulled, times, seconds)
        grown = process.memory_full_info().uss - connected
    slow = [_slow_growth(seconds) / _MIB for _ in range(times)]
    each_kib = (connected - before) / trainers / 1024
    return Found(connect_s, each_kib, push, pull, grown / _MIB, slow)


def _rates(
    process: psutil.Process,
    crowd: Crowd,
    say_it: Callable[[LightTrainer], None],
    answer: type[Message],
    times: int,
    seconds: float,
) -> Rates:
    rates = Rates([], [])
    for _ in range(times):
        cpu_s, start_s = sum(process.cpu_times()[:2]), time.perf_counter()
        count = crowd.keep(say_it, answer, seconds)
        rates.per_s.append(count / (time.perf_counter() - start_s))
        rates.cpu_us.append((sum(process.cpu_times()[:2]) - cpu_s) / count * 1e6)
    return rates


def _slow_growth(seconds: float) -> float:
    """Bytes by which a server grows while one reads no answer, and another is served."""
    with server(LARGE_ELEMENTS) as (address, process), contextlib.ExitStack() as stack:
        crowd = Crowd(address, 2)
        stack.callback(crowd.close)
        before = process.memory_full_info().uss
        slow, _ = crowd.trainers
        crowd.forget(slow)
        slow.ask_unread(ASKS_UNREAD)
        crowd.keep(LightTrainer.pull, Pulled, seconds)
        return float(process.memory_full_info().uss - before)


def report(found: Found) -> str:
    """The tables for people."""
    rows = [["", "a second", "least", "most", "CPU us each"]]
    for name, rates in (("push", found.push), ("pull", found.pull)):
        reached = [f"{value:,.0f}" for value in spread(rates.per_s)[:3]]
        rows.append([name, *reached, f"{statistics.median(rates.cpu_us):.1f}"])
    lines = [
        ["connect", f"{found.connect_s:.2f} s"],
        ["memory of a connection", f"{found.connection_kib:.1f} KiB"],
        ["growth over all requests", f"{found.grown_mib:.1f} MiB"],
        ["growth by a slow reader", f"{max(found.slow_grown_mib):.1f} MiB at most"],
    ]
    return f"{table(rows)}\n\n{table(lines)}"


def figures_of(found: Found) -> list[Figure]:
    """Rates and what they cost, and memory."""
    figures = []
    for name, rates in (("push", found.push), ("pull", found.pull)):
        per_s = Figure("requests", name, "ours", "a second", tuple(rates.per_s), True)
        cost = tuple(rates.cpu_us)
        figures += [per_s, Figure("processor time of a request", name, "ours", "us", cost)]
    slow = tuple(found.slow_grown_mib)
    figures.append(Figure("growth", "by a slow reader", "ours", "MiB", slow))
    return sorted(figures, key=lambda figure: figure.what, reverse=True)


def ratios_of(figures: Sequence[Figure], trainers: int) -> list[Ratio]:
    """How many were served, and what a slow one costs."""
    push = next(figure for figure in figures if figure.who == "push")
    slow = next(figure for figure in figures if figure.who == "by a slow reader")
    most = max(slow.values)
    return [judged(push, wanted("crowd"), trainers), judged(slow, wanted("slow"), most)]


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks server_scale")
    parser.add_argument("--trainers", type=int, default=1000)
    parser.add_argument("--times", type=int, default=5, help="measurements of each rate")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)  # before the load is our own
    say(f"{flags.trainers} trainers")
    found = measure(flags.trainers, flags.times, flags.seconds)
    print(report(found))
    figures = figures_of(found)
    ratios = ratios_of(figures, flags.trainers)
    print(f"\n{ratio_table(ratios)}")
    told = f"every push and pull of {flags.trainers:,} trainers was answered"
    record = {
        **where,
        "trainers": flags.trainers,
        "connect_s": found.connect_s,
        "connection_kib": found.connection_kib,
        "grown_mib": found.grown_mib,
        **kept(figures, ratios, told, is_equal=True),
    }
    print(f"\n{write('server_scale', record)}")
    return 0 if ratios[-1].verdict == "reached" else 1

"""How many round trips of a step wait for each other, where links have a delay.

::

    python -m benchmarks round_trips [--times 5] [--ms 20]

The same small job, one trainer, over links without a delay and over links whose round trip
takes ``--ms``: by what a step takes longer, in empty round trips of such a link, is how
many wait for each other. What travels together counts once, and what nobody waits for not
at all.

======================  ================================================================
a step                  the median one of a run, within a task of 64 batches
over all steps          the mean, with those between two tasks
======================  ================================================================

Links go over relays in this process (`paceline.testing.relay`), over TCP within TLS, and
nothing is shared in memory. Far is the trainer from all others; in the cases that end in
``all-far``, servers are as far from the coordinator, too. Runs with and without the delay
take turns, each in processes of its own, and both must have learned the same.

Exit status: 0; 1 if the delay changes what is learned.
"""

import contextlib
import json
import socket
import statistics
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast, final

from benchmarks.harness.apart import APART, WITHIN_TLS, within_tls
from benchmarks.harness.bench import TIMES, Found, Run, bench, flags_of, opt, result
from benchmarks.harness.environments import one_thread
from benchmarks.harness.figures import Figure, Measure, Ratio, judged, measured
from benchmarks.harness.processes import job_config, wait_job
from benchmarks.transport.round_trips_loops import Plan
from paceline.ids import role_kind
from paceline.launch.job.addresses import LOOPBACK
from paceline.launch.job.commands import Command, UserScript
from paceline.launch.job.environment import ADDRESS, COORDINATOR
from paceline.launch.processes.forkserver import ForkServer
from paceline.launch.processes.process import Child
from paceline.testing.relay import Address, Relay
from paceline.timing import SystemClock
from paceline.transport.address import TcpAddress, TcpListening

SCRIPT = Path(__file__).with_name("round_trips_loops.py")
FAR = "127.0.0.2"  # where servers are told to be: their relays
WARM, TASK = 8, 64  # steps before the clock; batches
ECHOES = 9
LIMIT_S = 10.0
STEP, ALL_STEPS = "round trips of a step", "the same, over all steps"
UNIT = "trips"


class Job(NamedTuple):
    """What is run."""

    pace: str
    servers: int = 2
    has_rows: bool = False
    are_all_far: bool = False  # servers from the coordinator, too


JOBS = {
    "async": Job("async"),
    "sync": Job("sync"),
    "async:pull=2": Job("async:pull=2"),
    "async-rows": Job("async", has_rows=True),
    "sync-rows": Job("sync", has_rows=True),
    "async-one-server": Job("async", servers=1),
    "sync-one-server": Job("sync", servers=1),
    "async-all-far": Job("async", are_all_far=True),
    "sync-all-far": Job("sync", are_all_far=True),
}


class Timed(NamedTuple):
    """A run over links of one delay."""

    step_ms: float  # the median
    mean_ms: float
    least_ms: float
    echo_ms: float  # of an empty round trip
    losses: list[float]  # of each step


class Pair(NamedTuple):
    """The same job without a delay, and with it."""

    near: Timed
    far: Timed

    def trips(self, near_ms: float, far_ms: float) -> float:
        """Round trips in what the delay has added."""
        return (far_ms - near_ms) / (self.far.echo_ms - self.near.echo_ms)


@final
class Places:
    """Starts the roles of one job; who is far talks over relays."""

    def __init__(
        self, forks: ForkServer, stack: contextlib.ExitStack, job: Job, each_s: float
    ) -> None:
        """Relays last as long as ``stack``; each way takes ``each_s``."""
        self._forks, self._stack = forks, stack
        self._job, self._each_s = job, each_s
        self._relays: dict[str, Address] = {}  # {role: where it is told to be}

    def start(self, role: str, command: Command, log: Path) -> Child | None:
        """See `ForkServer.start`."""
        told, kind = dict(command.environment), role_kind(role)
        if kind == "server":
            own = TcpListening.parse(told[ADDRESS])
            # A port cannot be another one outside than inside.
            self._relay(role, own.reached, (FAR, own.first))
            told[ADDRESS] = str(own._replace(host=FAR))
        if kind == "trainer" or (kind == "server" and self._job.are_all_far):
            where = TcpListening.parse(told[COORDINATOR]).reached
            host, port = self._relay("coordinator", where, (LOOPBACK, 0))
            told[COORDINATOR] = str(TcpAddress(host, port))
        return self._forks.start(role, command._replace(environment=told), log)

    def _relay(self, role: str, where: TcpAddress, listen: Address) -> Address:
        if role not in self._relays:  # it may be started again
            each_s, target = self._each_s, (where.host, where.port)
            relay = Relay(target, listen, there_s=each_s, back_s=each_s)
            self._relays[role] = self._stack.enter_context(relay).address
        return self._relays[role]


def echo_ms(each_s: float) -> float:
    """An empty round trip over a relay: the median of some."""
    clock, took_s = SystemClock(), list[float]()
    with (
        socket.create_server((LOOPBACK, 0)) as listener,
        Relay(listener.getsockname(), there_s=each_s, back_s=each_s) as relay,
        socket.create_connection(relay.address, LIMIT_S) as sock,
    ):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answering = threading.Thread(target=_answer, args=(listener,), daemon=True)
        answering.start()
        for _ in range(ECHOES):
            began_s = clock.now_s()
            sock.sendall(b"-")
            sock.recv(1)
            took_s.append(clock.now_s() - began_s)
        sock.shutdown(socket.SHUT_WR)
        answering.join(LIMIT_S)
    return 1e3 * statistics.median(took_s)


def _answer(listener: socket.socket) -> None:
    sock, _ = listener.accept()
    with sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while heard := sock.recv(1):
            sock.sendall(heard)


def run_once(job: Job, steps: int, trip_s: float, place: Path, forks: ForkServer) -> Timed:
    """A job over links whose round trip takes so long, in a fresh folder."""
    each_s = trip_s / 2
    plan = Plan(job.has_rows, WARM, steps, TASK)
    told = json.dumps(plan._asdict())
    words = flags_of(out=place / "result.json", plan=told)
    script = UserScript(str(SCRIPT), words)
    config = job_config(job.pace, servers=job.servers)
    empty_ms = echo_ms(each_s)
    with contextlib.ExitStack() as stack:
        stack.enter_context(within_tls())
        places = cast(ForkServer, Places(forks, stack, job, each_s))  # it only starts
        wait_job(places, config, script, one_thread(), place, "tcp")
    found = result(place)
    took_ms = [1e3 * seconds for seconds in found["seconds"]]
    step_ms, mean_ms = statistics.median(took_ms), statistics.mean(took_ms)
    return Timed(step_ms, mean_ms, min(took_ms), empty_ms, found["losses"])


def run_pair(job: Job, steps: int, trip_s: float, place: Path, forks: ForkServer) -> Pair:
    """A job without a delay, and with it, in a fresh folder."""
    folders = place / "near", place / "far"
    for folder in folders:
        folder.mkdir(0o700)
    near, far = (
        run_once(job, steps, delay_s, folder, forks)
        for delay_s, folder in zip((0.0, trip_s), folders, strict=True)
    )
    return Pair(near, far)


def figures_of(runs: Mapping[str, Sequence[Pair]], ms: float) -> list[Figure]:
    """Round trips, and the steps that they were read off."""
    return [
        *measured(
            runs,
            Measure(STEP, UNIT, lambda r: r.trips(r.near.step_ms, r.far.step_ms)),
            Measure(ALL_STEPS, UNIT, lambda r: r.trips(r.near.mean_ms, r.far.mean_ms)),
            Measure("a step without a delay", "ms", lambda r: r.near.step_ms),
            Measure(f"a step with {ms:g} ms", "ms", lambda r: r.far.step_ms),
        ),
        Figure(
            f"an empty round trip with {ms:g} ms",
            "a bare echo over a relay",
            "floor",
            "ms",
            tuple(pair.far.echo_ms for pairs in runs.values() for pair in pairs),
        ),
    ]


def ratios_of(figures: Sequence[Figure]) -> list[Ratio]:
    """Every job's step against what is wanted of its pace."""
    return [
        judged(figure, f"trips-{JOBS[figure.who].pace.partition(':')[0]}")
        for figure in figures
        if figure.what == STEP
    ]


def compare_losses(runs: Mapping[str, Sequence[Pair]]) -> tuple[bool, str]:
    """Whether the delay changes what is learned: the losses of all steps."""
    strange = [
        name
        for name, pairs in runs.items()
        if any(pair.near.losses != pair.far.losses for pair in pairs)
    ]
    told = f"no: {', '.join(strange)}" if strange else "yes"
    return not strange, f"with the delay every step has the same loss as without: {told}"


def measure(
    run: Run, jobs: Sequence[str], *, steps: int, trip_s: float
) -> dict[str, list[Pair]]:
    """Interleaved runs: so many steps of each job, without a delay and with it."""
    forks = run.forks(APART, WITHIN_TLS)

    def once(name: str, place: Path) -> Pair:
        return run_pair(JOBS[name], steps, trip_s, place, forks)

    def told(name: str, pair: Pair) -> str:
        near, far = pair
        trips = pair.trips(near.step_ms, far.step_ms)
        return f"{name}: {near.step_ms:.1f} ms, far {far.step_ms:.1f}: {trips:.2f} trips"

    return run.interleaved(jobs, once, told)


@bench(
    "round_trips",
    TIMES,
    opt("ms", 20.0, "of a round trip, where there is a delay"),
    opt("steps", 64, "that are timed, of each run"),
    opt("jobs", tuple(JOBS), "which of them", choices=tuple(JOBS)),
)
def main(run: Run) -> Found:
    """Measure."""
    flags = run.flags
    runs = measure(run, flags.jobs, steps=flags.steps, trip_s=flags.ms / 1e3)
    figures = figures_of(runs, flags.ms)
    is_equal, told = compare_losses(runs)
    return Found(figures, ratios_of(figures), told, is_equal)

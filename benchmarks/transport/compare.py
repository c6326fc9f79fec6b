"""A pull and a push between two processes, against what others use for it.

::

    python -m benchmarks transport [--times 5] [--peers torch,zmq,grpc,ray]

======================  ================================================================
small pull              4 KiB, asked for and landed in memory that was there before
large pull              16 MiB, the same
large push              16 MiB, until they lie in the server's memory and that is known
======================  ================================================================

Ours is measured twice: the bare transport, and the Pull and Push of a job's trainer with
all that they decide. Peers are torch RPC, pyzmq, gRPC and Ray actor calls; floors are the
copy of the same bytes within one process, and a bare Unix socket. Every candidate first
gives back what was pushed; runs are interleaved, each in processes of its own.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness.bench import TIMES, Found, Run, bench, flags_of, opt, result
from benchmarks.harness.environments import OURS, one_thread, versions, wait_python
from benchmarks.harness.figures import Figure, Kind, Ratio, compared, number
from benchmarks.harness.processes import job_config, wait_modules
from benchmarks.transport.timing import Plan

JOB_SCRIPT = Path(__file__).with_name("job.py")
LIMIT_S = 600.0  # of one run
SIZES = ("small", "large")
WHAT = ("small pull", "large pull", "large push")


class Candidate(NamedTuple):
    """What is measured: a module beside this one, in an environment."""

    who: str
    kind: Kind
    module: str
    environment: str = OURS
    has_server: bool = True  # which the benchmark starts, and both meet in a folder


MEMCPY = Candidate("memcpy", "floor", "floors", has_server=False)
SOCKET = Candidate("bare Unix socket", "floor", "floors")
TRANSPORT = Candidate("paceline, transport", "ours", "with_paceline")
JOB = Candidate("paceline, job", "ours", "job")
PEERS = {
    "torch": Candidate("torch RPC", "peer", "with_torch"),
    "zmq": Candidate("pyzmq", "peer", "with_zmq", "messages"),
    "grpc": Candidate("gRPC", "peer", "with_grpc", "messages"),
    "ray": Candidate("Ray actor", "peer", "with_ray", "ray", has_server=False),
}
GOALS = {  # {what, against whom: goal}
    ("small pull", PEERS["torch"].who): "small-pull-torch",
    ("small pull", PEERS["ray"].who): "small-pull-ray",
    ("large pull", MEMCPY.who): "large-pull",
    ("large push", MEMCPY.who): "large-push",
}

Runs = dict[Candidate, list[dict[str, float]]]  # {candidate: {what: seconds} of each run}


def run_once(
    candidate: Candidate, plan: Plan, folder: Path, python: Path, run: Run
) -> dict[str, float]:
    """One run in processes of its own: {what: seconds of a trip}.

    Raises:
        RuntimeError: it failed; its own words are in the message.
    """
    if candidate == JOB:
        return run_jobs(plan, run)
    out = folder / "result.json"
    # Without a server of ours, Ray starts its own; its paths are long, the kernel's short.
    place = "" if candidate == MEMCPY else str(folder)
    shared = ("--place", place, "--plan", json.dumps(plan._asdict()), "--out", str(out))
    roles = ("client", "server") if candidate.has_server else ("client",)
    environment = {**one_thread(), "RAY_AUTH_MODE": "disabled"}
    module = f"benchmarks.transport.{candidate.module}"
    commands = {role: (role, *shared) for role in roles}
    wait_modules(python, module, commands, environment, folder, LIMIT_S)
    found: dict[str, float] = result(folder)
    return found


def run_jobs(plan: Plan, run: Run) -> dict[str, float]:
    """Two jobs of one trainer and one server, one for each size of a part."""
    found = {size: run_job(size, plan, run) for size in SIZES}
    return {
        "small pull": found["small"]["pull"],
        "large pull": found["large"]["pull"],
        "large push": found["large"]["push"],
    }


def figures_of(runs: Mapping[Candidate, Sequence[Mapping[str, float]]]) -> list[Figure]:
    """Microseconds of a trip, by what and by whom."""
    return [
        Figure(what, c.who, c.kind, "us", tuple(1e6 * run[what] for run in found))
        for what in WHAT
        for c, found in runs.items()
    ]


def ratios_of(figures: Sequence[Figure]) -> list[Ratio]:
    """Both of ours against everybody; goals are those of the whole path, the job's."""
    by_name = {(figure.what, figure.who): figure for figure in figures}
    return [
        compared(
            by_name[what, ours.who],
            other,
            GOALS.get((what, other.who), "") if ours == JOB else "",
        )
        for what in WHAT
        for ours in (TRANSPORT, JOB)
        for other in figures
        if other.what == what and other.kind != "ours"
    ]


def run_job(size: str, plan: Plan, run: Run) -> dict[str, Any]:
    """One of them: what its script has written."""
    place = run.place()
    words = flags_of(
        bytes=getattr(plan, f"{size}_bytes"),
        trips=getattr(plan, f"{size}_trips"),
        out=place / "result.json",
    )
    run.job(JOB_SCRIPT, words, place, job_config("sync"))
    found: dict[str, Any] = result(place)
    return found


@bench(
    "transport",
    TIMES,
    opt("peers", tuple(PEERS), "which of them", tuple(PEERS)),
    opt("trips", 2000, "small ones, of each run"),
    opt("large-trips", 50),
)
def main(run: Run) -> Found:
    """Measure ours, floors and peers."""
    plan = Plan(small_trips=run.flags.trips, large_trips=run.flags.large_trips)
    peers = [PEERS[name] for name in run.flags.peers]
    candidates = [MEMCPY, SOCKET, TRANSPORT, JOB, *peers]
    pythons = {one: wait_python(one.environment) for one in candidates}

    def told(one: Candidate, trips: Mapping[str, float]) -> str:
        took = ", ".join(f"{what} {number(1e6 * trips[what])} us" for what in WHAT)
        return f"{one.who}: {took}"

    runs = run.interleaved(
        candidates,
        lambda one, place: run_once(one, plan, place, pythons[one], run),
        told,
    )
    figures = figures_of(runs)
    return Found(
        figures,
        ratios_of(figures),
        "every candidate gave back the bytes that were pushed before any clock ran",
        more={
            "plan": plan._asdict(),
            "peers": {peer.who: versions(peer.environment) for peer in peers},
        },
    )

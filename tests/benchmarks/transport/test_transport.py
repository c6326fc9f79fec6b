"""The transport benchmark compares what has carried the same bytes."""

import threading
from pathlib import Path
from typing import final

import numpy as np
import pytest

from benchmarks.harness.watching import watched
from benchmarks.transport.compare import (
    JOB,
    MEMCPY,
    PEERS,
    SOCKET,
    TRANSPORT,
    figures_of,
    ratios_of,
)
from benchmarks.transport.floors import CopyLink, SocketLink, serve, wait_socket
from benchmarks.transport.job import run
from benchmarks.transport.timing import Bytes, Link, Plan, measure
from benchmarks.transport.with_paceline import (
    RUN,
    ArenaService,
    Fetch,
    PacelineLink,
    Store,
    wait_link,
)
from paceline.config import JobConfig, parse_pace
from paceline.launch.embedded import EmbeddedJob
from paceline.timing import SystemClock
from paceline.transport.handshake import HelloCheck
from paceline.transport.opening import listen

PLAN = Plan(small_bytes=64, large_bytes=1 << 16, small_trips=3, large_trips=2)


@final
class Forgetful(Link):
    """Carries nothing."""

    def pull(self, arena: int, into: Bytes) -> None:
        del arena
        into.fill(7)

    def push(self, arena: int, values: Bytes) -> None:
        pass


def test_what_does_not_come_back_is_not_timed() -> None:
    with pytest.raises(ValueError, match="64 bytes were pushed, others came back"):
        measure(Forgetful(), PLAN)


def test_every_trip_is_timed() -> None:
    seconds = measure(CopyLink(PLAN), PLAN)
    assert {"small pull", "large pull", "large push"} < set(seconds)
    assert min(seconds.values()) > 0


def test_a_bare_socket_carries_the_bytes(tmp_path: Path) -> None:
    place = str(tmp_path)
    serving = threading.Thread(target=serve, args=(place, PLAN))
    serving.start()
    with wait_socket(place) as sock:
        assert measure(SocketLink(sock), PLAN)["large push"] > 0
    serving.join(10)
    assert not serving.is_alive()


def test_our_transport_carries_the_bytes() -> None:
    address = "inproc:arenas"
    with (
        listen(
            address,
            ArenaService(PLAN),
            hello_check=HelloCheck(RUN, "server-0", {"trainer"}),
            request_type=lambda _: Fetch | Store,
            clock=SystemClock(),
        ),
        wait_link(address) as connection,
    ):
        assert measure(PacelineLink(connection), PLAN)["large pull"] > 0


@pytest.mark.slow
def test_a_job_pulls_and_pushes_what_plain_sgd_would_have(tmp_path: Path) -> None:
    config = JobConfig(run="r", pace=parse_pace("sync"), cut_every_s=0.0)
    job = EmbeddedJob(config, tmp_path / "job")
    try:
        with watched() as trips:
            found = run(job.session("trainer-0"), trips, 4096, count=5)
    finally:
        job.close()
    assert set(found) == {"pull", "push", "after push"}
    assert min(found.values()) > 0


def test_goals_are_those_of_the_whole_path() -> None:
    runs = {
        candidate: [{"small pull": s, "large pull": s, "large push": s}]
        for candidate, s in (
            (MEMCPY, 1.0),
            (SOCKET, 2.0),
            (TRANSPORT, 1.0),
            (JOB, 2.0),
            (PEERS["torch"], 16.0),
        )
    }
    ratios = {(r.what, r.ours, r.against): r for r in ratios_of(figures_of(runs))}
    wanted = ratios["small pull", JOB.who, "torch RPC"]
    assert (wanted.value, wanted.goal, wanted.verdict) == (8.0, ">= 8", "reached")
    assert ratios["large push", JOB.who, "memcpy"].verdict == "missed"
    assert not ratios["large push", TRANSPORT.who, "memcpy"].goal
    assert not ratios["large pull", JOB.who, "torch RPC"].goal
    assert np.isclose(ratios["large pull", JOB.who, "bare Unix socket"].value, 1.0)

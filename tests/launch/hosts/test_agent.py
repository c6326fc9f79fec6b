"""A host has what is wished for there, and ends it when it is alone in the world."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from paceline.errors import JobFailed, PeerLost, TransportError
from paceline.launch.guests import JobOver
from paceline.launch.hosts.agent import _Agent, _Notice
from paceline.launch.hosts.coming import RunGone
from paceline.launch.job import JobDir
from paceline.launch.processes import Child, ForkServer, Interrupts
from paceline.launch.processes.parent import is_gone
from paceline.launch.processes.process import spawn
from paceline.messages.hosts import (
    HostOrders,
    HostProcess,
    HostReport,
)
from paceline.timing import ManualClock
from paceline.transport.connection import Connection
from paceline.transport.patience import PatientConnection
from tests.launch.hosts import test_coming as coming

PLAN = coming.PLAN._replace(orphan_after_s=15.0)


def wait_with_a_sleeper(
    folder: Path, answers: Iterator[HostOrders | PeerLost], step_s: float
) -> tuple[JobFailed | JobOver, list[Child]]:
    """How a host ends whose trainer sleeps, and the trainers that it has started."""
    job, clock, started = JobDir(folder / "job"), ManualClock(), list[Child]()
    job.claim(coming.JOINED.config, coming.JOINED.script.path)

    def call(*_: object, **__: object) -> SimpleNamespace:
        clock.advance(step_s)
        answer = next(answers)
        if isinstance(answer, TransportError):
            raise answer
        return SimpleNamespace(message=answer)

    def start(role: str, _: object, log: Path) -> Child:
        started.append(spawn(role, ["sleep", "1000"], {**os.environ}, log))
        return started[-1]

    connection = SimpleNamespace(call=call, close=lambda: None)
    link = PatientConnection(lambda: cast("Connection", connection))
    forks = cast("ForkServer", SimpleNamespace(start=start))
    agent = _Agent(PLAN, coming.JOINED, job, folder, forks, clock, {})
    report = HostReport(host="host-1", token="t", running={}, ended={})
    try:
        return agent.wait_over(link, report, Interrupts()), started
    except JobFailed as failed:
        return failed, started


@pytest.mark.slow
def test_who_hears_nothing_for_too_long_ends_all_that_it_has_and_not_before(
    tmp_path: Path,
) -> None:
    orders = HostOrders(processes={1: HostProcess("trainer-0", "run")})
    lost = PeerLost("nobody answers")
    answers = iter([orders, *[lost] * 3, orders, *[lost] * 4])  # 12 s, then 16 s

    failed, started = wait_with_a_sleeper(tmp_path, answers, step_s=4.0)

    assert "nothing was heard from the launcher at tcp:10.0.0.1:7070 for 15 s" in str(
        failed
    )
    assert next(answers, None) is None, "it has not waited for so long"
    assert [is_gone(child.pid) for child in started] == [True]


def test_who_is_told_to_stop_goes_at_once_unless_the_job_may_end_before() -> None:
    clock = ManualClock()
    at_once, stays = _Notice(clock, 0.0), _Notice(clock, 90.0)
    assert not at_once.is_due(0, is_heard=False)
    assert at_once.is_due(1, is_heard=True)

    assert not stays.is_due(1, is_heard=True)
    clock.advance(89.0)
    assert not stays.is_due(1, is_heard=True)
    assert stays.is_due(2, is_heard=True), "told twice"
    assert stays.is_due(1, is_heard=False), "nobody is there who would end it"
    clock.advance(1.0)
    assert stays.is_due(1, is_heard=True)


@pytest.mark.slow
def test_a_run_that_ends_before_its_job_is_gone_and_says_so(tmp_path: Path) -> None:
    orders = HostOrders(processes={1: HostProcess("trainer-0", "run")})
    over = HostOrders(processes={}, is_over=True, goes_on=True)

    gone, started = wait_with_a_sleeper(tmp_path, iter([orders, over]), step_s=0.1)

    assert isinstance(gone, RunGone)
    assert gone.is_interrupted
    assert [is_gone(child.pid) for child in started] == [True]


def test_how_a_job_has_failed_is_known_where_its_hosts_are(tmp_path: Path) -> None:
    over = HostOrders(processes={}, is_over=True, status=3, ending="2 tasks given up")

    ended, _ = wait_with_a_sleeper(tmp_path, iter([over]), step_s=0.1)

    assert ended == JobOver("the job is over: 2 tasks given up", 3)

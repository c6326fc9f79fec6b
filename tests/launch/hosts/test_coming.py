"""A host waits for its launcher, whatever keeps that from answering, and says what does."""

import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from paceline.config import JobConfig
from paceline.errors import (
    DeadlineExceeded,
    ForeignPeer,
    Interrupted,
    JobFailed,
    PeerLost,
    TransportError,
    UsageError,
)
from paceline.launch.hosts import coming
from paceline.launch.hosts.coming import (
    AnotherSecret,
    HostPlan,
    NotLetIn,
    wait_door,
    wait_joined,
    wait_own_host,
)
from paceline.launch.job import JobDir, JobDoor, RunFile, write_secret
from paceline.launch.processes import Interrupts
from paceline.messages.hosts import HostJoined, HostScript, JoinHost
from paceline.messages.shared import Refusal
from paceline.timing import ManualClock
from paceline.transport.address import TcpAddress, TcpListening
from paceline.transport.connection import Connection
from paceline.transport.handshake import Secret
from paceline.transport.patience import PatientConnection

PLAN = HostPlan(
    TcpAddress("10.0.0.1", 7070),
    TcpListening("10.0.0.2", "10.0.0.2"),
    "b",
    2,
    Secret.fresh(),
    join_within_s=60.0,
)
JOINED = HostJoined(
    host="host-1",
    config=JobConfig(run="r"),
    script=HostScript("train.py", (), is_module=False),
    coordinator="tcp:10.0.0.1:5",
    versions={},
)
COMING = JoinHost(token="t", name="b", address="tcp:10.0.0.2:5", cores=2)
Answer = HostJoined | Refusal | TransportError


def waited(
    *answers: Answer, step_s: float = 1.0, count: int = 0, plan: HostPlan = PLAN
) -> tuple[object, list[str]]:
    """What a host comes to that is answered so, and what it says meanwhile."""
    clock, said, interrupts = ManualClock(), list[str](), Interrupts()
    coming: Iterator[Answer] = iter(answers)

    def call(*_: object, **__: object) -> SimpleNamespace:
        clock.advance(step_s)
        answer = next(coming)
        if isinstance(answer, TransportError):
            raise answer
        return SimpleNamespace(message=answer)

    connection = SimpleNamespace(call=call, close=lambda: None)
    link = PatientConnection(lambda: cast("Connection", connection))
    interrupts.count = count
    return wait_joined(plan, link, COMING, interrupts, said.append, clock), said


def test_a_launcher_that_is_not_there_yet_is_waited_for_and_why_is_said_once() -> None:
    away, mute = PeerLost("nobody listens"), DeadlineExceeded("nothing answers")
    busy = Refusal(kind="not_ready", text="32 hosts are dialled back")

    joined, said = waited(away, away, mute, busy, JOINED)

    assert joined == JOINED
    head = "waiting for the launcher at tcp:10.0.0.1:7070: "
    assert said == [
        f"{head}nobody listens",
        f"{head}nothing answers",
        f"{head}32 hosts are dialled back",
    ]


def test_it_is_not_waited_for_longer_than_was_said() -> None:
    with pytest.raises(JobFailed, match=r"at tcp:10.0.0.1:7070 within 60 s: nobody"):
        waited(PeerLost("nobody listens"), step_s=61.0)


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (ForeignPeer("another secret"), AnotherSecret),
        (Refusal(kind="mismatch", text="another"), UsageError),
    ],
)
def test_who_is_refused_does_not_wait(refused: Answer, kind: type[UsageError]) -> None:
    with pytest.raises(UsageError, match="another") as raised:
        waited(refused)
    assert raised.type is kind


@pytest.mark.parametrize(
    "not_yet", [Refusal(kind="mismatch", text="not yet"), ForeignPeer("not yet")]
)
def test_a_launcher_that_reaches_no_host_yet_or_is_another_is_asked_again_for_a_while(
    not_yet: Answer,
) -> None:
    plan = PLAN._replace(reached_within_s=3.0)

    joined, _ = waited(not_yet, not_yet, JOINED, plan=plan)
    assert joined == JOINED
    with pytest.raises(UsageError, match="not yet"):
        waited(*[not_yet] * 4, plan=plan)
    with pytest.raises(UsageError, match="another script"):
        waited(Refusal(kind="invalid", text="another script"), plan=plan)


def test_who_is_told_to_stop_does_not_join() -> None:
    with pytest.raises(Interrupted, match="has not joined"):
        waited(JOINED, count=1)


def test_who_is_told_to_stop_looks_for_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def way(*_: object) -> str:
        signal.raise_signal(signal.SIGTERM)
        raise PeerLost("the name leads nowhere")

    monkeypatch.setattr(coming, "own_host", way)
    monkeypatch.setattr(coming, "LOOK_AGAIN_S", 0.0)
    with pytest.raises(Interrupted, match="has not joined"):
        wait_own_host(PLAN.launcher, 30.0, print, ManualClock())


def test_a_launcher_whose_name_is_not_known_yet_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, said = ManualClock(), list[str]()
    ways: list[str | TransportError] = [
        PeerLost("the name leads nowhere"),
        PeerLost("the name leads nowhere"),
        "10.0.0.2",
    ]

    def way(towards: TcpAddress, _: float) -> str:
        assert towards == launcher
        found = ways.pop(0)
        if isinstance(found, TransportError):
            clock.advance(31.0)
            raise found
        return found

    launcher = TcpAddress("launcher.example", 7070)
    monkeypatch.setattr(coming, "own_host", way)
    monkeypatch.setattr(coming, "LOOK_AGAIN_S", 0.0)
    assert wait_own_host(launcher, 70.0, said.append, clock) == "10.0.0.2"
    at = "the launcher at tcp:launcher.example:7070"
    assert said == [f"waiting for {at}: the name leads nowhere"]

    ways = [PeerLost("the name leads nowhere")]
    with pytest.raises(NotLetIn, match=r"no launcher is found at .* within 30 s: the name"):
        wait_own_host(launcher, 30.0, said.append, clock)


RUN = RunFile("r", "tcp:10.0.0.1:5", "/nowhere", 7)


def door_of(job: JobDir, *, within_s: float = 0.0) -> tuple[JobDoor | None, list[str]]:
    said = list[str]()
    return wait_door(job, within_s, said.append, ManualClock()), said


def test_a_job_folder_says_where_machines_join(tmp_path: Path) -> None:
    job, secret = JobDir(tmp_path), Secret.fresh()
    write_secret(job.secret, secret)
    job.write_run(RUN)
    job.write_door("10.0.0.1:7070")

    door, said = door_of(job)

    assert door == JobDoor(TcpAddress("10.0.0.1", 7070), secret)
    assert not said


@pytest.mark.parametrize("has_run", [False, True])
def test_a_job_that_has_not_begun_or_lets_nobody_in_is_not_waited_for_for_ever(
    tmp_path: Path, *, has_run: bool
) -> None:
    job = JobDir(tmp_path)
    if has_run:
        job.write_run(RUN)
        write_secret(job.secret, Secret.fresh())

    with pytest.raises(JobFailed, match="no run of the job lets machines in within 0 s"):
        door_of(job)


def test_a_job_that_is_over_needs_nobody_and_one_that_goes_on_does(tmp_path: Path) -> None:
    job = JobDir(tmp_path)
    job.write_end(None, {"status": "finished", "ending": "trained"})
    assert door_of(job) == (None, [])

    job.write_end(None, {"status": "stopped", "ending": "interrupted"})
    with pytest.raises(JobFailed, match="--join-within"):
        door_of(job)

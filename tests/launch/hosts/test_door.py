"""The launcher's door dials back who joins, and wakes the launcher with what is new."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from msgspec import structs

from paceline.config import JobConfig
from paceline.errors import ForeignPeer, JobFailed, PeerLost, TransportError
from paceline.launch.hosts.door import HostsDoor, Wanted
from paceline.launch.hosts.hosted import HostedChild
from paceline.launch.hosts.roster import Host, Roster
from paceline.launch.job import JobDir
from paceline.launch.processes import Child
from paceline.launch.supervise import NoRoom, Start
from paceline.messages.hosts import (
    AskLog,
    AskLogs,
    AskPlace,
    HostExit,
    HostJoined,
    HostOrders,
    HostReport,
    HostScript,
    JobPlace,
    JoinHost,
    LogPiece,
    LogSizes,
)
from paceline.messages.shared import Refusal
from paceline.timing import ManualClock
from paceline.transport.connection import Connection
from paceline.transport.service import Peer
from paceline.watch.summary import Ending, Verdict

PEER = Peer("host", "", 0, 1)
INTERRUPTED = Verdict(Ending.INTERRUPTED, "interrupted")
OWN = JoinHost(token="", name="home", address="10.0.0.1", cores=2)
COMING = JoinHost(token="b", name="b", address="tcp:10.0.0.2:5", cores=8)


class Reached:
    """A connection that is closed again."""

    def close(self) -> None:
        """Nothing to do."""


class Doors:
    """A door, and what it says and answers."""

    def __init__(self, folder: Path, hosts: int = 1, own: JoinHost = OWN) -> None:
        self.clock = ManualClock()
        self.said: list[str] = []
        self.job = JobDir(folder)
        self.job.logs.mkdir(parents=True)
        self.dialled: list[tuple[str, str]] = []
        self.objection: TransportError | None = None
        roster = Roster(own, 10.0, 0.0)
        self.door = HostsDoor(
            roster,
            Wanted(hosts, 60.0, trainers=2),
            self.job,
            self.joined,
            self.dial,
            self.said.append,
            self.clock,
        )

    def joined(self, host: Host) -> HostJoined:
        script = HostScript("train.py", (), is_module=False)
        config = JobConfig(run="r")
        return HostJoined(
            host=host.id, config=config, script=script, coordinator="tcp:", versions={}
        )

    def dial(self, address: str, token: str) -> Connection:
        self.dialled.append((address, token))
        if self.objection is not None:
            raise self.objection
        return cast("Connection", Reached())

    def ask(self, message: msgspec.Struct) -> Any:
        answers: queue.Queue[msgspec.Struct] = queue.Queue()
        self.door.received(PEER, message, [], lambda answer, _=(): answers.put(answer))
        return answers.get(timeout=10.0)

    def report(self, **what: Any) -> Any:
        told = {"running": {}, "ended": {}, **what}
        return self.ask(HostReport(host="host-1", token="b", **told))


@pytest.fixture
def doors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Doors]]:
    made: list[Doors] = []

    def make(hosts: int = 1, own: JoinHost = OWN) -> Doors:
        made.append(Doors(tmp_path, hosts, own))
        return made[-1]

    yield make
    monkeypatch.setattr("paceline.launch.hosts.door.TELL_S", 0.0)
    for one in made:
        one.door.close()


def within(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + 10.0
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def due(role: str) -> Start:
    """A role is to start."""
    return Start(role, "it is time")


def nowhere(wanted: Start) -> Child | None:
    raise AssertionError(f"{wanted.role} belongs elsewhere")


def test_who_joins_is_dialled_back_and_told_the_job(doors: Callable[..., Doors]) -> None:
    one = doors()

    joined = one.ask(COMING)

    assert isinstance(joined, HostJoined)
    assert joined.host == "host-1"
    assert one.dialled == [(COMING.address, COMING.token)]
    assert one.said == ["host-1 has joined: b, tcp:10.0.0.2:5, 8 cores"]
    assert one.ask(COMING).host == "host-1"
    assert len(one.said) == 1


@pytest.mark.parametrize(
    ("objection", "why"),
    [
        (PeerLost("no packet gets there"), "it is not: no packet gets there"),
        (
            ForeignPeer("its token"),
            "who answers there is another one, or has an older secret: its token",
        ),
    ],
)
def test_who_cannot_be_dialled_back_is_refused_with_both_addresses(
    objection: TransportError, why: str, doors: Callable[..., Doors]
) -> None:
    one = doors()
    one.objection = objection

    refused = one.ask(COMING)

    assert isinstance(refused, Refusal)
    assert "reached at tcp:10.0.0.2:5, and from here (10.0.0.1) it is not" in refused.text
    assert why in refused.text
    assert "--advertise" in refused.text


def test_a_process_of_another_host_is_watched_like_ones_own(
    doors: Callable[..., Doors],
) -> None:
    one = doors()
    one.ask(COMING)
    one.report()
    assert one.door.start(due("trainer-0"), nowhere) is None
    assert one.door.start(due("trainer-0"), nowhere) is None
    orders = one.report()
    assert isinstance(orders, HostOrders)
    [number] = orders.processes

    one.report(running={number: 7})
    child = one.door.start(due("trainer-0"), nowhere)

    assert isinstance(child, HostedChild)
    assert (child.role, child.pid) == ("trainer-0", 7)
    child.tell_to_leave()
    assert one.report(running={number: 7}).processes[number].wish == "leave"

    end = HostExit(7, 1, ("its last", "words"), b"{}")
    assert number in one.report(ended={number: end}).processes
    assert child.reap() == 1
    assert child.last_lines() == ["its last", "words"]
    assert child.lost_with == ""
    assert one.job.failure("trainer-0").read_bytes() == b"{}"
    assert one.report(ended={number: end}).processes == {}


def test_nothing_but_the_coordinator_starts_before_all_hosts_are_there(
    doors: Callable[..., Doors],
) -> None:
    one = doors(hosts=2)
    at_home: list[str] = []

    def start(wanted: Start) -> Child | None:
        at_home.append(wanted.role)
        return None

    one.door.start(due("coordinator"), start)
    one.door.start(due("server-0"), start)
    assert at_home == ["coordinator"]
    assert not one.said

    one.clock.advance(31.0)
    told = "waiting for 31 s for 1 more of the 2 machines that the job begins with"
    within(lambda: any(line.startswith(told) for line in one.said))
    one.clock.advance(29.0)
    with pytest.raises(JobFailed, match=r"begin with 2 machines \(--await-hosts\), and 1"):
        one.door.start(due("server-0"), start)


def test_a_role_waits_for_a_host_with_room_and_starts_when_one_joins(
    doors: Callable[..., Doors],
) -> None:
    one = doors(own=structs.replace(OWN, servers=0, trainers=0))
    one.ask(structs.replace(COMING, servers=0))
    one.report()

    assert one.door.start(due("server-0"), nowhere) == NoRoom("server-0")
    assert one.door.start(due("trainer-0"), nowhere) is None
    within(lambda: any("to start server-0: no machine has room" in x for x in one.said))

    one.ask(structs.replace(COMING, token="c", name="c", servers=1, trainers=0))
    assert one.said[-1].endswith("8 cores, at most 1 server, at most 0 trainers")
    one.ask(HostReport(host="host-2", token="c", running={}, ended={}))
    assert one.door.start(due("server-0"), nowhere) is None
    orders = one.ask(HostReport(host="host-2", token="c", running={}, ended={}))
    assert [process.role for process in orders.processes.values()] == ["server-0"]
    one.ask(HostReport(host="host-2", token="c", running={}, ended={}, leaves="told to"))


@pytest.mark.parametrize(("role", "takes"), [("server-0", 2), ("trainer-1", 1)])
def test_a_job_that_needs_a_role_waits_no_longer_than_was_said(
    role: str, takes: int, doors: Callable[..., Doors]
) -> None:
    one = doors(own=structs.replace(OWN, servers=0, trainers=takes))
    one.door.start(due("trainer-0"), lambda _: None)
    assert one.door.start(due(role), nowhere) == NoRoom(role)

    one.clock.advance(60.0)

    with pytest.raises(JobFailed, match=rf"{role} has waited for 60 s \(--first-batch\)"):
        one.door.start(due(role), nowhere)


def test_a_job_that_had_its_trainers_goes_on_with_fewer_and_waits_for_room_for_ever(
    doors: Callable[..., Doors],
) -> None:
    one = doors(own=structs.replace(OWN, trainers=1))
    one.ask(structs.replace(COMING, trainers=1))
    one.report()
    for role in ("trainer-0", "trainer-1"):
        one.door.start(due(role), lambda _: None)
    one.report(leaves="it was told to stop")

    lost = one.door.start(due("trainer-0"), nowhere)
    assert isinstance(lost, HostedChild)
    assert lost.reap() == -9
    for _ in range(9):
        assert one.door.start(due("trainer-0"), nowhere) == NoRoom("trainer-0")
        one.clock.advance(60.0)


def test_a_trainer_more_than_the_job_needs_waits_for_room_for_ever(
    doors: Callable[..., Doors],
) -> None:
    one = doors(own=structs.replace(OWN, trainers=2))
    for role in ("trainer-0", "trainer-1"):
        assert one.door.start(due(role), lambda _: None) is None
    for _ in range(9):
        assert one.door.start(due("trainer-2"), nowhere) == NoRoom("trainer-2")
        one.clock.advance(60.0)


def test_logs_of_hosts_are_in_the_launchers_before_it_is_known_how_their_roles_ended(
    doors: Callable[..., Doors],
) -> None:
    one = doors()
    one.ask(COMING)
    piece = LogPiece(name="trainer-0", offset=0, text=b"its last\nwords\n")

    assert one.report(logs=(piece,)).logs == {"trainer-0": 15}
    assert one.report(logs=(piece,)).logs == {"trainer-0": 15}

    whole = "-- on host-1 (b) --\nits last\nwords\n"
    assert one.job.log("trainer-0").read_text() == whole


def test_who_is_no_host_of_the_job_writes_no_log(doors: Callable[..., Doors]) -> None:
    one = doors()
    one.ask(COMING)
    piece = LogPiece(name="trainer-0", offset=0, text=b"words\n")
    report = HostReport(host="host-1", token="other", running={}, ended={}, logs=(piece,))

    assert isinstance(one.ask(report), Refusal)
    assert not one.job.log("trainer-0").exists()


def test_who_has_no_folder_is_told_where_the_job_is_and_what_its_logs_hold(
    doors: Callable[..., Doors],
) -> None:
    one = doors()
    one.job.log("server-0").write_text("words")

    assert one.ask(AskPlace()) == JobPlace(run="r", coordinator="tcp:")
    assert one.ask(AskLogs()) == LogSizes(sizes={"server-0": 5})
    piece = one.ask(AskLog(name="server-0", offset=2))
    assert piece == LogPiece(name="server-0", offset=2, text=b"rds")
    assert isinstance(one.ask(AskLog(name="../secret", offset=0)), Refusal)


def test_closing_waits_for_who_reads_logs_until_that_has_gone(tmp_path: Path) -> None:
    one = Doors(tmp_path)
    one.ask(AskLogs())
    closing = threading.Thread(target=one.door.close)
    closing.start()

    while not one.ask(AskLogs()).is_over:
        pass
    assert closing.is_alive()
    one.door.disconnected(PEER)


def test_the_door_closes_once_the_last_orders_are_sent(doors: Callable[..., Doors]) -> None:
    one = doors()
    one.ask(COMING)
    closing = threading.Thread(target=partial(one.door.close, INTERRUPTED))
    closing.start()
    were_open: list[bool] = []

    def reply(answer: msgspec.Struct, _: object = ()) -> None:
        if isinstance(answer, HostOrders) and answer.is_over and answer.goes_on:
            closing.join(0.3)
            were_open.append(closing.is_alive())

    report = HostReport(host="host-1", token="b", running={}, ended={})
    while not were_open:
        one.door.received(PEER, report, [], reply)

    assert were_open == [True]
    closing.join(10.0)
    assert not closing.is_alive()

"""A job is asked at its launcher's door by who has its secret, and by nobody else."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from paceline.errors import ForeignPeer, HandshakeRefused, TransportError, UsageError
from paceline.ids import COORDINATOR, LAUNCHER, OPERATOR
from paceline.launch.job import joining
from paceline.launch.job.joining import DoorLogs, JobDoor
from paceline.launch.job.operating import call_until_done, running_job
from paceline.launch.job.wiring import OBSERVER, Wires
from paceline.messages.hosts import (
    AskLog,
    AskPlace,
    HostReport,
    JobPlace,
    LogPiece,
    LogSizes,
)
from paceline.messages.shared import Done, Message, Refusal
from paceline.messages.watching import Scale
from paceline.timing import SystemClock
from paceline.transport.address import TcpAddress, parse_address
from paceline.transport.handshake import Secret
from paceline.transport.service import Peer, Reply

CLOCK = SystemClock()
SECRET = Secret.fresh()


class StandIn:
    """A launcher or a coordinator with few words."""

    def __init__(self) -> None:
        self.coordinator = ""
        self.heard: list[tuple[str, Message]] = []

    def received(self, peer: Peer, message: Message, buffers: object, reply: Reply) -> None:
        del buffers
        self.heard.append((peer.role, message))
        if isinstance(message, AskPlace):
            reply(JobPlace(run="r", coordinator=self.coordinator))
        elif isinstance(message, Scale):
            reply(Done())
        elif isinstance(message, AskLog) and message.name != "trainer-0":
            reply(Refusal(kind="invalid", text=f"no log {message.name!r}"))
        elif isinstance(message, AskLog):
            reply(LogPiece(name="trainer-0", offset=message.offset, text=b"words"))
        else:
            reply(LogSizes(sizes={"trainer-0": 5}, is_over=True))

    def disconnected(self, peer: Peer) -> None:
        pass


@pytest.fixture
def stand_in() -> StandIn:
    return StandIn()


@pytest.fixture
def coordinator(stand_in: StandIn) -> Iterator[str]:
    wires = Wires("r", COORDINATOR, CLOCK, secret=SECRET)
    with wires.listen_as_coordinator("tcp:127.0.0.1:0", stand_in) as listener:
        stand_in.coordinator = listener.address
        yield listener.address


@pytest.fixture
def launcher(stand_in: StandIn, coordinator: str) -> Iterator[TcpAddress]:
    assert coordinator
    wires = Wires("r", LAUNCHER, CLOCK, secret=SECRET)
    with wires.listen_as_launcher("tcp:127.0.0.1:0", stand_in) as listener:
        address = parse_address(listener.address)
        assert isinstance(address, TcpAddress)
        yield address


def test_a_job_is_changed_by_who_knows_its_launcher_and_its_secret(
    launcher: TcpAddress, stand_in: StandIn
) -> None:
    job = JobDoor(launcher, SECRET)

    call_until_done(job, Scale(trainers=2), CLOCK)

    running = running_job(job, CLOCK)
    assert running is not None
    assert (running.run, running.coordinator) == ("r", stand_in.coordinator)
    assert (OPERATOR, Scale(trainers=2)) in stand_in.heard
    assert job.name == f"127.0.0.1:{launcher.port}"


def test_logs_are_read_at_the_door(launcher: TcpAddress) -> None:
    with closing(DoorLogs(JobDoor(launcher, SECRET), CLOCK)) as logs:
        assert logs.sizes() == {"trainer-0": 5}
        assert logs.is_over()
        assert logs.read("trainer-0", 0) == b"words"
        with pytest.raises(UsageError, match="no log 'trainer-1'"):
            logs.read("trainer-1", 0)


def test_another_secret_is_refused_and_nothing_is_heard_of_it(
    launcher: TcpAddress, stand_in: StandIn
) -> None:
    with pytest.raises(UsageError, match="must belong to one run and have its secret"):
        JobDoor(launcher, Secret.fresh()).place(CLOCK)
    assert stand_in.heard == []


def test_where_no_launcher_listens_the_error_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joining, "ANSWER_S", 0.05)
    with pytest.raises(UsageError, match=r"no job is reached at 127.0.0.1:1: .*--listen"):
        JobDoor(TcpAddress("127.0.0.1", 1), SECRET).place(CLOCK)


@pytest.mark.parametrize("role", [OPERATOR, OBSERVER])
def test_who_does_not_know_the_run_is_let_in_at_the_door_alone(
    role: str, launcher: TcpAddress, coordinator: str
) -> None:
    wires = Wires("", role, CLOCK, secret=SECRET)
    wires.look_in(str(launcher)).close()
    with pytest.raises(ForeignPeer, match="expects run 'r', the other end has ''"):
        wires.observe(coordinator)


@pytest.mark.parametrize("role", ["trainer-0", "server-0", "launcher", "coordinator"])
def test_no_other_role_is_let_in_at_the_door(role: str, launcher: TcpAddress) -> None:
    with pytest.raises(HandshakeRefused, match="expects a role of kind host, observer, op"):
        Wires("r", role, CLOCK, secret=SECRET).look_in(str(launcher))


def test_who_looks_cannot_speak_for_a_host(launcher: TcpAddress) -> None:
    report = HostReport(host="host-1", token="", running={}, ended={})
    link = Wires("", OBSERVER, CLOCK, secret=SECRET).look_in(str(launcher))
    with closing(link), pytest.raises(TransportError):
        link.call(report, timeout_s=5.0)

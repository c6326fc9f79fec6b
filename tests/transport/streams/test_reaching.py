"""Names are looked up at each connect, and all their addresses are tried."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from paceline.errors import DeadlineExceeded, PeerLost
from paceline.transport.address import TcpAddress
from paceline.transport.frames import DATA_LIMITS
from paceline.transport.handshake import HelloCheck, Security
from paceline.transport.opening import connect, listen
from paceline.transport.streams import reaching
from paceline.transport.streams.reaching import Lookups, own_host, reach
from tests.transport.corridors import (
    CLOCK,
    HELLO,
    PATIENCE_S,
    SECRET,
    Memory,
    Said,
    Say,
    say,
)


class Names:
    """A stand-in for who answers for names."""

    def __init__(self, **known: Sequence[str]) -> None:
        self.known: dict[str, Sequence[str]] = known
        self.asked: list[str] = []
        self.answers = threading.Event()  # until then it is silent
        self.answers.set()

    def __call__(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        self.answers.wait(PATIENCE_S)
        if name not in self.known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.known[name]


@contextlib.contextmanager
def silent(host: str = "127.0.0.9") -> Iterator[int]:
    """A port of a host that takes nobody: whoever connects waits."""
    with (
        socket.create_server((host, 0), backlog=0) as full,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(full.getsockname())
        yield full.getsockname()[1]


def test_a_name_that_moves_is_found_at_the_next_connect() -> None:
    names = Names(pod=["127.0.0.3"])
    lookups = Lookups(names)
    with socket.create_server(("127.0.0.3", 0)) as old:
        where = TcpAddress("pod", old.getsockname()[1])
        with reach(where, PATIENCE_S, lookups=lookups) as sock:
            assert isinstance(sock, socket.socket)
            assert sock.getpeername() == old.getsockname()
    names.known["pod"] = ["127.0.0.4"]
    with (
        socket.create_server(("127.0.0.4", where.port)) as new,
        reach(where, PATIENCE_S, lookups=lookups) as sock,
    ):
        assert isinstance(sock, socket.socket)
        assert sock.getpeername() == new.getsockname()
    assert names.asked == ["pod", "pod"]


def test_an_address_that_leads_nowhere_costs_no_time_out() -> None:
    with silent() as port, socket.create_server(("127.0.0.3", port)):
        lookups = Lookups(Names(pod=["127.0.0.9", "127.0.0.3"]))
        began = time.monotonic()

        with reach(TcpAddress("pod", port), 60.0, lookups=lookups) as sock:
            assert isinstance(sock, socket.socket)
            assert sock.getpeername() == ("127.0.0.3", port)

        assert time.monotonic() - began < 10.0


def test_an_address_that_refuses_is_passed_over_at_once_in_either_family() -> None:
    with socket.create_server(("127.0.0.3", 0)) as listening:
        port = listening.getsockname()[1]
        nowhere = ["fd00:1234::1", "127.0.0.5", "::1"]  # no route, and nobody there
        lookups = Lookups(Names(pod=[*nowhere, "127.0.0.3"]))
        with reach(TcpAddress("pod", port), PATIENCE_S, lookups=lookups) as sock:
            assert isinstance(sock, socket.socket)
            assert sock.getpeername() == ("127.0.0.3", port)


def test_families_take_turns_and_each_address_is_tried_once() -> None:
    found = ["fd00::1", "fd00::1", "fd00::2", "10.0.0.1", "fd00::3", "10.0.0.2"]
    assert Lookups(Names(pod=found)).wait_addresses("pod", PATIENCE_S) == [
        *("fd00::1", "10.0.0.1", "fd00::2", "10.0.0.2", "fd00::3"),
    ]


def test_who_listens_at_none_is_told_for_each() -> None:
    with socket.create_server(("127.0.0.3", 0)) as gone:
        port = gone.getsockname()[1]
    lookups = Lookups(Names(pod=["127.0.0.3", "127.0.0.4"]))
    both = r"\(127.0.0.3: Connection refused, 127.0.0.4: Connection refused\)"
    with pytest.raises(PeerLost, match=f"tcp:pod:{port}: nobody listens there {both}"):
        reach(TcpAddress("pod", port), PATIENCE_S, lookups=lookups)


def test_who_is_silent_is_told_with_who_refused() -> None:
    with silent() as port:
        lookups = Lookups(Names(pod=["127.0.0.9", "127.0.0.4"]))
        told = r"within 0.5 s: 127.0.0.4 \(Connection refused\), 127.0.0.9 \(silent\)"
        with pytest.raises(DeadlineExceeded, match=told):
            reach(TcpAddress("pod", port), 0.5, lookups=lookups)


def test_a_name_that_nobody_knows_is_a_peer_that_is_not_there_yet() -> None:
    names = Names()
    lookups = Lookups(names)
    with pytest.raises(PeerLost, match=r"'pod' leads nowhere .*Name or service not known"):
        reach(TcpAddress("pod", 1), PATIENCE_S, lookups=lookups)
    names.known["pod"] = ["127.0.0.1"]
    assert lookups.wait_addresses("pod", PATIENCE_S) == ["127.0.0.1"]


def test_a_look_up_that_hangs_is_bounded_and_is_not_begun_again() -> None:
    names = Names(pod=["127.0.0.3"])
    names.answers.clear()
    lookups = Lookups(names)
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(DeadlineExceeded, match=r"has not answered within 0\.01 s"):
            reach(TcpAddress("pod", 1), 0.01, lookups=lookups)
    assert names.asked == ["pod"]
    assert threading.active_count() == before + 1

    names.answers.set()
    assert lookups.wait_addresses("pod", PATIENCE_S) == ["127.0.0.3"]


def test_a_look_up_that_hangs_holds_nobody_else_up() -> None:
    names = Names(pod=["127.0.0.3"], other=["127.0.0.4"])
    lookups = Lookups(lambda name: names(name) if name == "pod" else names.known[name])
    names.answers.clear()
    with pytest.raises(DeadlineExceeded):
        lookups.wait_addresses("pod", 0.0)
    assert lookups.wait_addresses("other", PATIENCE_S) == ["127.0.0.4"]
    names.answers.set()


def test_a_forked_process_waits_for_no_look_up_of_its_parent() -> None:
    names = Names(pod=["127.0.0.3"])
    names.answers.clear()
    lookups = Lookups(names)
    with pytest.raises(DeadlineExceeded):
        lookups.wait_addresses("pod", 0.0)
    names.answers.set()

    lookups.forget()  # as after a fork, where the thread that asked is not

    assert lookups.wait_addresses("pod", PATIENCE_S) == ["127.0.0.3"]
    assert names.asked == ["pod", "pod"]


def test_the_name_of_this_machine_leads_nowhere_else() -> None:
    lookups = Lookups(Names(localhost=["192.0.2.1", "127.0.0.1"]))
    assert lookups.wait_addresses("localhost", PATIENCE_S) == ["127.0.0.1"]
    with pytest.raises(PeerLost, match="leads nowhere"):
        Lookups(Names(localhost=["192.0.2.1"])).wait_addresses("localhost", PATIENCE_S)


def test_what_the_system_knows_is_asked() -> None:
    assert set(Lookups().wait_addresses("localhost", PATIENCE_S)) <= {"127.0.0.1", "::1"}


def test_the_own_address_is_that_of_the_way_that_answers() -> None:
    with socket.create_server(("127.0.0.3", 0)) as listening:
        where = TcpAddress("pod", listening.getsockname()[1])
        lookups = Lookups(Names(pod=["127.0.0.5", "127.0.0.3"]))
        assert own_host(where, PATIENCE_S, lookups) == "127.0.0.1"
    assert own_host(TcpAddress("127.0.0.1", 1)) == "127.0.0.1"


@pytest.mark.parametrize("way", ["tls", "plain"])
def test_the_proof_holds_by_whatever_name(
    service: Memory, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    names = Names(pod=["127.0.0.4", "127.0.0.3"])
    monkeypatch.setattr(reaching.LOOKUPS, "_resolve", names)
    security = Security(SECRET, way="plain" if way == "plain" else None)
    with listen(
        "tcp:pod:0@127.0.0.3",
        service,
        hello_check=HelloCheck("run-1", "server-0", {"trainer"}, security),
        request_type=lambda _: Say,
        clock=CLOCK,
    ) as listener:
        assert listener.address.startswith("tcp:pod:")
        with connect(
            listener.address, HELLO, Said, DATA_LIMITS, CLOCK, PATIENCE_S, security
        ) as connection:
            assert say(connection, "x") == Said("x")

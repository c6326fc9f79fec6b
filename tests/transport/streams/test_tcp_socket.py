"""Ports, and the proof that is asked for at them."""

import contextlib
import re
import socket
import threading

import pytest

from paceline.errors import DeadlineExceeded, HandshakeRefused, PeerLost, UsageError
from paceline.transport.address import TcpAddress, TcpListening
from paceline.transport.frames import DATA_LIMITS, encode_frame
from paceline.transport.handshake import (
    Challenge,
    Hello,
    HelloCheck,
    Secret,
    Security,
    Way,
    Welcome,
)
from paceline.transport.opening import connect, listen
from paceline.transport.streams.reaching import reach
from paceline.transport.streams.sockets import TcpDoor, hold_port, prepare
from tests.transport.bare import (
    BareListener,
    BareSocket,
    bare_client,
    flat,
    hello_bytes,
)
from tests.transport.corridors import (
    CLOCK,
    HELLO,
    PATIENCE_S,
    SECRET,
    Memory,
    Said,
    Say,
    TcpCorridor,
    say,
)

SECURITY = Security(SECRET)
HERE = TcpListening("127.0.0.1", "127.0.0.1")

# ------------------------------------------------------------- closed by default


def test_nobody_listens_without_a_secret(service: Memory) -> None:
    with pytest.raises(UsageError, match="TCP needs the run's secret"):
        listen(
            "tcp:127.0.0.1:0",
            service,
            hello_check=HelloCheck("run-1", "server-0", {"trainer"}),
            request_type=lambda _: Say,
            clock=CLOCK,
        )


def test_nobody_connects_without_a_secret(tcp: TcpCorridor, service: Memory) -> None:
    tcp.listen(service)
    with pytest.raises(UsageError, match="TCP needs the run's secret"):
        connect(tcp.address, HELLO, Said, DATA_LIMITS, CLOCK, PATIENCE_S)


def test_only_the_named_address_is_listened_at(tcp: TcpCorridor, service: Memory) -> None:
    tcp.listen(service)
    elsewhere = TcpAddress("127.0.0.2", tcp.where.port)  # the same host, another address
    with pytest.raises(PeerLost, match="nobody listens there"):
        reach(elsewhere, PATIENCE_S)


def test_a_plain_address_that_others_can_reach_is_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    everywhere = TcpListening("0.0.0.0", "0.0.0.0")
    TcpDoor(HERE, SECURITY).socket.close()
    TcpDoor(everywhere, SECURITY).socket.close()
    assert not caplog.messages
    TcpDoor(everywhere, SECURITY._replace(way="plain")).socket.close()
    assert "and plain, as was asked for" in caplog.text


@pytest.mark.parametrize(
    ("host", "word", "way"),
    [
        ("127.0.0.1", None, "local"),
        ("::1", None, "local"),
        ("10.0.0.1", None, "tls"),
        ("0.0.0.0", None, "tls"),
        ("10.0.0.1", "plain", "plain"),
        ("127.0.0.1", "plain", "plain"),
        ("127.0.0.1", "tls", "tls"),
    ],
)
def test_beyond_loopback_it_is_tls_but_by_word(
    host: str, word: Way | None, way: Way
) -> None:
    assert SECURITY._replace(way=word).way_to(TcpAddress(host, 1)) == way


# ------------------------------------------------------------- the secret


def test_another_secret_is_a_clear_error_at_both_ends(
    tcp: TcpCorridor, service: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    listener = tcp.listen(service)
    other = Secret.fresh()
    with pytest.raises(HandshakeRefused, match=r"secret \(PACELINE_SECRET\)"):
        connect(tcp.address, HELLO, Said, DATA_LIMITS, CLOCK, PATIENCE_S, Security(other))
    assert say(tcp.connect(), "member") == Said("member")
    listener.close(PATIENCE_S)
    assert listener.counters()["refused"] == 1
    [line] = caplog.messages
    assert re.search(r"turning away tcp:127.0.0.1:\d+: .* 'trainer-0' does not hold", line)
    for secret in (SECRET, other):
        assert secret.text() not in caplog.text


def test_listener_of_another_secret_is_left(tcp: TcpCorridor) -> None:
    def pretend(peer: BareSocket) -> None:
        peer.read()
        peer.send(hello_bytes(Challenge(bytes(32))))
        peer.read()
        peer.send(hello_bytes(Welcome(run="run-1", role="server-0", proof=bytes(32))))

    with (
        BareListener(tcp, pretend, shakes_hands=False),
        pytest.raises(HandshakeRefused, match="the proof does not hold"),
    ):
        tcp.connect()


def test_proof_passed_on_from_another_port_is_refused(
    tcp: TcpCorridor, service: Memory
) -> None:
    """Somebody took the port of a role that died, and knows where its successor is."""
    tcp.listen(service)

    def pass_on(client: BareSocket) -> None:
        genuine = bare_client(tcp)
        with genuine.socket:
            for _ in range(2):
                for here, there in ((client, genuine), (genuine, client)):
                    kind, number, message, *_ = here.read()
                    assert message is not None
                    there.send(flat(encode_frame(kind, number, message)))

    between = TcpCorridor()
    with (
        BareListener(between, pass_on, shakes_hands=False),
        pytest.raises(HandshakeRefused, match="that of 'trainer-0' does not hold"),
    ):
        between.connect()
    between.release()
    assert not service.gone


def test_a_role_is_not_changed_by_who_knows_another(
    tcp: TcpCorridor, service: Memory
) -> None:
    tcp.listen(service)
    with pytest.raises(HandshakeRefused, match="kind trainer, got 'server-4'"):
        tcp.connect(Hello(run="run-1", role="server-4"))


# ------------------------------------------------------------- ports


def test_port_0_is_a_free_port_that_the_listener_names(service: Memory) -> None:
    with listen(
        "tcp:127.0.0.1:0",
        service,
        hello_check=HelloCheck("run-1", "server-0", {"trainer"}, SECURITY),
        request_type=lambda _: Say,
        clock=CLOCK,
    ) as listener:
        assert not listener.address.endswith(":0")
        connection = connect(
            listener.address, HELLO, Said, DATA_LIMITS, CLOCK, PATIENCE_S, SECURITY
        )
        with connection:
            assert say(connection, "x") == Said("x")


def test_a_held_port_is_nobody_elses_before_and_after_its_listener(
    service: Memory,
) -> None:
    corridor = TcpCorridor()
    corridor.listen(service).close(PATIENCE_S)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((corridor.where.host, corridor.where.port))
    corridor.listen(service)
    assert say(corridor.connect(), "successor") == Said("successor")
    corridor.close()


def test_two_held_ports_are_two() -> None:
    with hold_port(HERE) as one, hold_port(HERE) as other:
        assert one.reached.port != other.reached.port


def free_ports(count: int) -> TcpListening:
    """A range of ports of loopback of which nobody has any."""
    for first in range(20_000, 32_000, count):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    one = stack.enter_context(socket.socket())
                    one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return HERE._replace(first=first, last=first + count - 1)
    raise AssertionError("no ports are free")


def test_a_taken_port_of_a_range_is_passed_over() -> None:
    ports = free_ports(3)
    with (
        socket.create_server(("127.0.0.1", ports.first)),
        hold_port(ports) as held,
    ):
        assert held.first == held.last == ports.first + 1

        door = TcpDoor(ports, SECURITY)

        assert door.address == f"tcp:127.0.0.1:{ports.first + 2}"
        door.vacate()
        door.socket.close()


def test_a_held_port_of_a_range_is_nobody_elses_before_anybody_listens() -> None:
    ports = free_ports(2)
    with hold_port(ports) as one, hold_port(ports) as other:
        assert {one.first, other.first} == {ports.first, ports.last}
        for take in (
            lambda: hold_port(ports).__enter__(),
            lambda: TcpDoor(ports, SECURITY),
        ):
            with pytest.raises(UsageError, match=f"{ports.first}-{ports.last}") as refused:
                take()
        assert "127.0.0.1: somebody has each of its ports" in str(refused.value)
        assert "name a wider range" in str(refused.value)
    with hold_port(ports) as again:
        assert again.first == ports.first


def test_its_own_listener_takes_a_held_port_of_a_range_again_and_again() -> None:
    with hold_port(free_ports(2)) as held:
        for _ in range(2):
            door = TcpDoor(held, SECURITY)
            assert door.address == str(held)
            door.vacate()
            door.socket.close()


def test_who_is_reached_elsewhere_than_it_is_bound_says_so() -> None:
    where = TcpListening("build.example", "127.0.0.1")
    door = TcpDoor(where, SECURITY)
    port = door.socket.getsockname()[1]
    assert door.address == f"tcp:build.example:{port}"
    assert door.way == "tls"  # for those who are told a name it is not this machine
    door.socket.close()


def test_who_is_told_loopback_is_not_let_in_from_elsewhere() -> None:
    with pytest.raises(UsageError, match="name the one that they reach"):
        TcpDoor(TcpListening("localhost", "0.0.0.0"), SECURITY)


@pytest.mark.parametrize("way", ["plain", "tls"])
def test_a_listener_at_all_addresses_takes_both_families(service: Memory, way: Way) -> None:
    security = SECURITY._replace(way=way)
    with listen(
        "tcp:build.example:0@::",
        service,
        hello_check=HelloCheck("run-1", "server-0", {"trainer"}, security),
        request_type=lambda _: Say,
        clock=CLOCK,
    ) as listener:
        port = listener.address.rpartition(":")[2]
        for host in ("127.0.0.1", "[::1]"):
            address = f"tcp:{host}:{port}"
            with connect(
                address, HELLO, Said, DATA_LIMITS, CLOCK, PATIENCE_S, security
            ) as connection:
                assert say(connection, host) == Said(host)


def test_host_of_another_machine_cannot_be_listened_at() -> None:
    with pytest.raises(UsageError, match=r"tcp:192\.0\.2\.1:0: cannot listen there"):
        TcpDoor(TcpListening("192.0.2.1", "192.0.2.1"), SECURITY)


def test_nothing_answers_within_the_time_out() -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as silent,
        socket.create_connection(silent.getsockname()) as first,
    ):
        port = silent.getsockname()[1]
        assert first
        with pytest.raises((DeadlineExceeded, HandshakeRefused), match=f":{port}"):
            # The kernel may still take one more into the backlog: then nobody says hello.
            connect(
                f"tcp:127.0.0.1:{port}", HELLO, Said, DATA_LIMITS, CLOCK, 0.05, SECURITY
            )


def test_another_program_that_answers_is_no_listener_of_the_job(tcp: TcpCorridor) -> None:
    def greet_as_mail(peer: BareSocket) -> None:
        peer.send(b"220 mail.example.org ESMTP ready; say HELO first\r\n")
        peer.read()

    with (
        BareListener(tcp, greet_as_mail, shakes_hands=False),
        pytest.raises(HandshakeRefused, match="no listener of this job: expected a frame"),
    ):
        tcp.connect()


def test_small_frames_go_at_once_and_vanished_peers_are_noticed() -> None:
    door = TcpDoor(HERE, SECURITY)
    where = TcpAddress("127.0.0.1", door.socket.getsockname()[1])
    with reach(where, PATIENCE_S) as mine:
        door.socket.setblocking(True)
        theirs, _ = door.socket.accept()
        with theirs:
            prepare(theirs)
            for sock in (mine, theirs):
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) > 0
                assert not sock.getblocking()
    door.socket.close()


def test_closing_a_listener_leaves_no_thread(tcp: TcpCorridor, service: Memory) -> None:
    listener = tcp.listen(service)
    listener.close(PATIENCE_S)
    assert not [t for t in threading.enumerate() if t.name.startswith("paceline")]

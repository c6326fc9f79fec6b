"""A relay is late, lies, falls silent, and forwards where it is told to."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from paceline.testing.machines import Machine, Machines
from paceline.testing.relay import ON_THE_WAY, Address, Relay
from paceline.timing import SystemClock

pytestmark = [pytest.mark.slow, pytest.mark.system]
LIMIT_S = 20.0
SILENT_S = 0.2  # a message takes a thousandth
CLOCK = SystemClock()


@contextlib.contextmanager
def listening(address: str = "127.0.0.1") -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listener:
        listener.settimeout(LIMIT_S)
        yield listener


@contextlib.contextmanager
def connected(
    relay: Address, listener: socket.socket
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Who connects, and whom the relay has connected it to."""
    with socket.create_connection(relay, LIMIT_S) as client:
        server, _ = listener.accept()
        with server:
            server.settimeout(LIMIT_S)
            yield client, server


def receive(ear: socket.socket, num_bytes: int) -> bytes:
    found = b""
    while len(found) < num_bytes and (more := ear.recv(num_bytes - len(found))):
        found += more
    return found


def seconds(mouth: socket.socket, ear: socket.socket) -> float:
    """How long a message takes."""
    start_s = CLOCK.now_s()
    mouth.sendall(b"x" * 1000)
    assert receive(ear, 1000) == b"x" * 1000
    return CLOCK.now_s() - start_s


def assert_silent(ear: socket.socket) -> None:
    ear.settimeout(SILENT_S)
    with pytest.raises(TimeoutError):
        ear.recv(1)
    ear.settimeout(LIMIT_S)


def fill(mouth: socket.socket, most: int) -> int:
    """Send until nobody takes more, or so many bytes; how many were taken."""
    mouth.settimeout(SILENT_S)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < most:
            sent += mouth.send(bytes(1 << 20))
    mouth.settimeout(LIMIT_S)
    return sent


@pytest.mark.parametrize(("there_s", "back_s"), [(0.05, 0.1), (0.001, 0.02), (0.0, 0.0)])
def test_each_way_has_its_own_delay(there_s: float, back_s: float) -> None:
    with (
        listening() as listener,
        Relay(listener.getsockname(), there_s=there_s, back_s=back_s) as relay,
        connected(relay.address, listener) as (client, server),
    ):
        for _ in range(3):
            assert there_s <= seconds(client, server) < there_s + 5
            assert back_s <= seconds(server, client) < back_s + 5


def test_a_delay_of_one_way_delays_nothing_of_the_other() -> None:
    with (
        listening() as listener,
        Relay(listener.getsockname(), there_s=1000.0) as relay,
        connected(relay.address, listener) as (client, server),
    ):
        client.sendall(b"x")
        assert seconds(server, client) < LIMIT_S


def test_what_is_late_does_not_hold_up_what_follows() -> None:
    with (
        listening() as listener,
        Relay(listener.getsockname(), there_s=1000.0) as relay,
        connected(relay.address, listener) as (client, _),
    ):
        client.sendall(bytes(16 << 20))  # on its way: 800 MB/s at 20 ms
        assert fill(client, 1 << 30) < 2 * ON_THE_WAY  # and it ends


def test_all_arrives_in_order_and_so_does_the_end() -> None:
    data = bytes(range(256)) * 20_000
    with (
        listening() as listener,
        Relay(listener.getsockname(), there_s=0.02, back_s=0.02) as relay,
        connected(relay.address, listener) as (client, server),
    ):

        def talk() -> None:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)

        talking = threading.Thread(target=talk)
        talking.start()
        assert receive(server, len(data)) == data
        assert server.recv(1) == b""
        server.sendall(b"heard")  # the other way is open still
        assert receive(client, 5) == b"heard"
        talking.join(LIMIT_S)


@pytest.mark.parametrize("byte", [0, 5, 700_000])
def test_one_bit_of_one_byte_arrives_flipped(byte: int) -> None:
    data = bytes(1_000_000)
    with (
        listening() as listener,
        Relay(listener.getsockname()) as relay,
        connected(relay.address, listener) as (client, server),
    ):
        relay.flip_bit("there", byte)
        server.sendall(b"clean")
        assert receive(client, 5) == b"clean"
        assert relay.flipped == 0
        sending = threading.Thread(target=client.sendall, args=(data,))
        sending.start()
        found = receive(server, len(data))
        sending.join(LIMIT_S)
        assert [at for at, value in enumerate(found) if value] == [byte]
        assert found[byte].bit_count() == 1
        assert relay.flipped == 1
        client.sendall(b"\0")
        assert receive(server, 1) == b"\0"


def test_new_connections_go_to_another_target_and_old_ones_stay() -> None:
    with (
        listening() as first,
        listening() as second,
        Relay(first.getsockname()) as relay,
        connected(relay.address, first) as (client, server),
    ):
        relay.swap(second.getsockname())
        with connected(relay.address, second) as (other_client, other_server):
            other_client.sendall(b"new")
            client.sendall(b"old")
            assert receive(other_server, 3) == b"new"
            assert receive(server, 3) == b"old"


def test_a_silent_relay_lets_nothing_through_and_ends_nothing() -> None:
    with (
        listening() as listener,
        Relay(listener.getsockname()) as relay,
        connected(relay.address, listener) as (client, server),
    ):
        relay.hold()
        client.sendall(b"held")
        assert_silent(server)
        with connected(relay.address, listener) as (other, other_server):
            other.sendall(b"too")
            other.shutdown(socket.SHUT_WR)
            assert_silent(other_server)
            relay.release()
            assert receive(other_server, 4) == b"too"
        assert receive(server, 4) == b"held"


def test_dropped_connections_are_reset_at_both_ends_and_new_ones_are_forwarded() -> None:
    with (
        listening() as listener,
        Relay(listener.getsockname()) as relay,
        connected(relay.address, listener) as (client, server),
    ):
        relay.drop()
        for end in (client, server):
            with pytest.raises(ConnectionResetError):
                end.recv(1)
        with connected(relay.address, listener) as (client, server):
            assert seconds(client, server) < LIMIT_S


def test_a_reset_is_passed_on_and_so_is_a_target_that_is_not_there() -> None:
    with listening() as listener, Relay(listener.getsockname()) as relay:
        with connected(relay.address, listener) as (client, server):
            server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            server.close()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        listener.close()
        # The reset may come while who connects still looks whether it is connected.
        with (
            pytest.raises(ConnectionResetError),
            socket.create_connection(relay.address, LIMIT_S) as client,
        ):
            client.recv(1)


@pytest.mark.usefixtures("needs_machines")
def test_a_machine_forwards_to_another_one_by_another_kind_of_address() -> None:
    with Machines(3) as (one, between, other):
        with other.inside():
            listener = socket.create_server((other.ipv6, 0), family=socket.AF_INET6)
        target: Address = listener.getsockname()[:2]
        with listener, Relay(target, (between.ipv4, 0), machine=between) as relay:
            listener.settimeout(LIMIT_S)
            assert relay.address[0] == between.ipv4
            with one.inside():
                client = socket.create_connection(relay.address, LIMIT_S)
            server, peer = listener.accept()
            with client, server:
                assert peer[0] == between.ipv6
                assert seconds(client, server) < LIMIT_S


@pytest.mark.usefixtures("needs_machines")
def test_a_relay_in_a_process_of_its_own_is_late_and_dies_with_its_machine() -> None:
    with Machines(2) as (one, other):
        with other.inside():
            listener = socket.create_server((other.address, 0))
        with listener:
            listener.settimeout(LIMIT_S)
            port = listener.getsockname()[1]
            relay = start(one, other.address, str(port), "--there-ms", "20")
            with one.inside():
                client = socket.create_connection((one.address, 7001), LIMIT_S)
            server, _ = listener.accept()
            with client, server:
                assert seconds(client, server) >= 0.02
                one.kill()
                assert relay.wait(LIMIT_S) == -signal.SIGKILL


def start(machine: Machine, *words: str) -> "subprocess.Popen[bytes]":
    """A relay of a machine, which listens."""
    program = [sys.executable, "-m", "paceline.testing.relay", machine.address, "7001"]
    relay = machine.popen([*program, *words], stdout=subprocess.PIPE)
    assert relay.stdout is not None
    assert relay.stdout.readline() == b"7001\n"
    return relay

"""Where the roles of a job on this machine listen."""

import socket
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.launch.job.addresses import from_here, hold_addresses, reached
from paceline.transport.address import TcpAddress, TcpListening, parse_address

SOCKETS = Path("/s")
ROLES = ("coordinator", "server-0", "server-1")


def test_unix_sockets_lie_in_the_private_folder() -> None:
    with hold_addresses("unix", SOCKETS, ROLES) as addresses:
        assert addresses["coordinator"] == "unix:/s/coordinator.sock"
        assert addresses["server-1"] == "unix:/s/server-1.sock"


def test_over_tcp_each_has_a_port_of_loopback_until_the_job_is_over() -> None:
    with hold_addresses("tcp", SOCKETS, ROLES) as addresses:
        found = {role: parse_address(text) for role, text in addresses.items()}
        assert tuple(found) == ROLES
        assert len(set(found.values())) == len(ROLES)
        for where in found.values():
            assert isinstance(where, TcpAddress)
            assert where.is_loopback
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(where)


def test_over_tcp_another_address_of_this_host_may_be_named() -> None:
    own = TcpListening("127.0.0.2", "127.0.0.2")
    with hold_addresses("tcp", SOCKETS, ROLES, own) as addresses:
        assert all(text.startswith("tcp:127.0.0.2:") for text in addresses.values())


def test_what_others_are_told_may_not_be_what_is_bound() -> None:
    own = TcpListening("build.example", "127.0.0.2")
    with hold_addresses("tcp", SOCKETS, ROLES, own) as addresses:
        for address in addresses.values():
            port = TcpListening.parse(address).first
            assert address == f"tcp:build.example:{port}@127.0.0.2"
            assert reached(address) == f"tcp:build.example:{port}"


def test_an_address_of_another_host_is_refused() -> None:
    with (
        pytest.raises(UsageError, match=r"192\.0\.2\.1:0: cannot listen there"),
        hold_addresses("tcp", SOCKETS, ROLES, TcpListening("192.0.2.1", "192.0.2.1")),
    ):
        pass


def test_a_unix_socket_is_reached_where_it_lies() -> None:
    assert reached("unix:/s/a.sock") == from_here("unix:/s/a.sock") == "unix:/s/a.sock"

"""Where the roles of a job on this machine listen."""

import socket
from pathlib import Path

import pytest

from paceline.launch.addresses import coordinator_address, server_address
from paceline.launch.environment import Place
from paceline.transport.address import TcpAddress, parse_address

SOCKETS = Path("/s")


def place(coordinator: str) -> Place:
    return Place("r1", "server-1", Path("/job"), coordinator, SOCKETS, 17)


def test_unix_sockets_lie_in_the_private_folder() -> None:
    with coordinator_address("unix", SOCKETS) as coordinator:
        assert coordinator == "unix:/s/coordinator.sock"
    with server_address(place(coordinator)) as server:
        assert server == "unix:/s/server-1.sock"


def test_over_tcp_all_are_on_loopback_at_ports_of_their_own() -> None:
    with (
        coordinator_address("tcp", SOCKETS) as coordinator,
        server_address(place(coordinator)) as server,
    ):
        addresses = [parse_address(text) for text in (coordinator, server)]
    assert all(isinstance(it, TcpAddress) and it.is_loopback for it in addresses)
    assert addresses[0] != addresses[1]


def test_a_coordinators_port_is_its_own_until_the_job_is_over() -> None:
    with coordinator_address("tcp", SOCKETS) as coordinator:
        where = parse_address(coordinator)
        assert isinstance(where, TcpAddress)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(where)

"""Where the roles of a job on this machine listen.

::

    unix   <private folder>/<role>.sock
    tcp    the coordinator: a port of 127.0.0.1 that the launcher holds while the job runs,
           so that it can be told before anybody listens there, and is the same after a
           restart; a server: any free port of the same address, which it reports

Waits: for nothing.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from paceline.ids import COORDINATOR
from paceline.launch.environment import Place
from paceline.transport.address import TcpAddress, parse_address
from paceline.transport.tcp_socket import hold_port

Transport = Literal["unix", "tcp"]

LOOPBACK = "127.0.0.1"


@contextlib.contextmanager
def coordinator_address(transport: Transport, sockets: Path) -> Iterator[str]:
    """Where the coordinator will listen, and nobody else while this is held.

    Args:
        transport: over what.
        sockets: the private folder of the job's Unix sockets.
    """
    if transport == "unix":
        yield unix_address(sockets, COORDINATOR)
        return
    with hold_port(LOOPBACK) as where:
        yield str(where)


@contextlib.contextmanager
def server_address(place: Place) -> Iterator[str]:
    """Where a server may listen: over what its coordinator does, on the same address.

    Raises:
        UsageError: the coordinator's address is none.
    """
    coordinator = parse_address(place.coordinator)
    if not isinstance(coordinator, TcpAddress):
        yield unix_address(place.sockets, place.role)
        return
    with hold_port(coordinator.host) as where:
        yield str(where)


def unix_address(sockets: Path, role: str) -> str:
    """A role's socket in the private folder."""
    return f"unix:{sockets / role}.sock"

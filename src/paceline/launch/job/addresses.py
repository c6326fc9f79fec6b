"""Where the roles of a job on this machine listen.

::

    unix   <private folder>/<role>.sock
    tcp    a port of 127.0.0.1, or of another address of this host, for each role, which the
           launcher holds while the job runs; a trainer has any that is free, or of a range.
           In a job of several hosts a server is reached at a Unix socket by those of its
           own, too. Who listens may be told to do so elsewhere than others are told

The address of a coordinator or server is told before anybody listens there, and is the same
after a restart: whoever looks for a role that died finds its successor there, and is told
by it what has changed. Of a trainer's door the coordinator is told when there is one.

Waits: for nothing.
"""

import contextlib
import ipaddress
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import xxhash

from paceline.errors import UsageError
from paceline.launch.job.environment import Place
from paceline.transport.address import (
    TcpAddress,
    TcpListening,
    is_name,
    parse_address,
    parse_listening,
)
from paceline.transport.streams import hold_port

Transport = Literal["unix", "tcp"]

LOOPBACK = "127.0.0.1"
ON_LOOPBACK = TcpListening(LOOPBACK, LOOPBACK)
MOST_DOORS = 10  # of one trainer: processes of it that hang, and the one that does not


@contextlib.contextmanager
def hold_addresses(
    transport: Transport,
    sockets: Path,
    roles: Sequence[str],
    own: TcpListening = ON_LOOPBACK,
) -> Iterator[dict[str, str]]:
    """Where roles will listen, and nobody else while this is held: {role: address}.

    Over Unix sockets in the private folder ``sockets``; over TCP at ports of ``own``.

    Raises:
        UsageError: it is none of this machine's, or no port is free.
    """
    with contextlib.ExitStack() as stack:
        if transport == "unix":
            yield {role: f"unix:{sockets / role}.sock" for role in roles}
        else:
            yield {role: str(stack.enter_context(hold_port(own))) for role in roles}


def reached(address: str) -> str:
    """Where others reach who listens at an address."""
    where = parse_listening(address)
    return str(where.reached) if isinstance(where, TcpListening) else address


def from_here(address: str) -> str:
    """Where this machine reaches who listens at an address on it."""
    where = parse_listening(address)
    return str(where.from_here) if isinstance(where, TcpListening) else address


def near_address(sockets: Path, address: str) -> str:
    """Where on its own host a server is reached, too, that listens at a TCP address.

    Over a Unix socket the data goes through shared memory.
    """
    return f"unix:{sockets / xxhash.xxh3_64_hexdigest(address.encode())}.sock"


def tcp_address(option: str, text: str) -> TcpAddress:
    """Read an address as users write it: ``10.0.0.1:7070``, ``[fd00::1]:0``, ``name:7070``.

    Raises:
        UsageError: it is none; or no address of one machine, but of all of them.
    """
    try:
        address = parse_address(text if text.startswith("tcp:") else f"tcp:{text}")
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from error
    assert isinstance(address, TcpAddress)
    if not is_name(address.host) and ipaddress.ip_address(address.host).is_unspecified:
        raise UsageError(
            f"{option}: {text} stands for all addresses of a machine: name the one that "
            "the other machines reach"
        )
    return address


def door_addresses(place: Place) -> Sequence[str]:
    """Addresses to try, in order, for a trainer's door: over TCP it is told one.

    Those with a number are for where a process of it that hangs has the other one still.
    """
    if place.address:
        return [place.address]
    names = [place.role, *(f"{place.role}.{n}" for n in range(1, MOST_DOORS))]
    return [f"unix:{place.sockets / name}.sock" for name in names]

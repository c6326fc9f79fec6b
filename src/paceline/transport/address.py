"""Where a role can be reached, as text.

::

    unix:/run/paceline/x.sock     a Unix socket on this host
    tcp:127.0.0.1:4711            TCP
    tcp:[::1]:4711                the same over IPv6
    tcp:build.example:4711        a name, which is looked up at each connect
    inproc:coordinator            a listener of this process

For listening only::

    tcp:127.0.0.1:0               any free port
    tcp:10.0.0.1:7100-7199        the first free port of a range
    tcp:build.example:7100@0.0.0.0    bound at another address than it is reached at

Pure.
"""

import ipaddress
import re
from typing import NamedTuple

from paceline.errors import UsageError

MAX_PATH_BYTES = 107  # sockaddr_un holds 108 with the closing zero
MOST_PORTS = 1 << 16
_MAX_NAME_CHARACTERS = 253
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.ASCII | re.IGNORECASE)
# The resolver takes a name with such an end for an IPv4 address, cut short or misspelt.
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\.?", re.ASCII | re.IGNORECASE)
_FORMS = {
    "unix": "unix:/path/to.sock",
    "tcp": "tcp:127.0.0.1:4711, tcp:[::1]:4711 or tcp:name:4711",
    "inproc": "inproc:name",
}


class UnixAddress(NamedTuple):
    """A Unix socket on this host."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


class TcpAddress(NamedTuple):
    """A port of an IPv4 or IPv6 address, which is in its shortest form, or of a name."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"tcp:{_bracketed(self.host)}:{self.port}"

    @property
    def is_name(self) -> bool:
        """Whether the host must be looked up."""
        return is_name(self.host)

    @property
    def is_loopback(self) -> bool:
        """Whether only this host can reach it."""
        return is_loopback(self.host)


class TcpListening(NamedTuple):
    """Where a listener is reached, and where it is.

    Others reach it at ``host``; it is bound at ``bound``, an IP address of this machine or
    all of them (``0.0.0.0``; ``::`` takes IPv4, too), and at the first free port from
    ``first`` to ``last``. 0: any.
    """

    host: str
    bound: str
    first: int = 0
    last: int = 0

    @classmethod
    def parse(cls, text: str) -> "TcpListening":
        """Read it as it is written.

        Raises:
            UsageError: it is something else.
        """
        found = parse_listening(text)
        if not isinstance(found, TcpListening):
            raise UsageError(f"address {text!r}: expected {_FORMS['tcp']}")
        return found

    def __str__(self) -> str:
        ports = f"{self.first}-{self.last}" if self.is_range else f"{self.first}"
        bound = "" if self.bound == self.host else f"@{self.bound}"
        return f"tcp:{_bracketed(self.host)}:{ports}{bound}"

    @property
    def is_range(self) -> bool:
        """Whether there are several ports to choose from."""
        return self.first < self.last

    @property
    def reached(self) -> TcpAddress:
        """Where others reach it, once it has one port."""
        return TcpAddress(self.host, self.first)

    @property
    def from_here(self) -> TcpAddress:
        """Where this machine reaches it: what others are told may lead over a translation.

        As closed as for others: what they do not reach by loopback, it does not either.
        """
        bound = ipaddress.ip_address(self.bound)
        is_of_one = not (bound.is_unspecified or bound.is_loopback)
        return TcpAddress(self.bound if is_of_one else self.host, self.first)

    def at(self, port: int) -> "TcpListening":
        """The same at one port."""
        return self._replace(first=port, last=port)


class InProcessAddress(NamedTuple):
    """A listener of this process."""

    name: str

    def __str__(self) -> str:
        return f"inproc:{self.name}"


Address = UnixAddress | TcpAddress | InProcessAddress


def parse_address(text: str) -> Address:
    """Read an address.

    Raises:
        UsageError: unknown scheme, no name, a host that is neither an IP address nor a
            name or that only one machine understands, or a socket path that the kernel
            cannot hold.
    """
    scheme, rest = _split(text)
    if scheme != "tcp":
        return InProcessAddress(rest) if scheme == "inproc" else _unix(text, rest)
    host, port = _host_and_ports(text, rest)
    return TcpAddress(host, _port(text, port))


def parse_listening(text: str) -> UnixAddress | TcpListening | InProcessAddress:
    """Read an address to listen at.

    Raises:
        UsageError: as of `parse_address`; or it is bound at a name, or its ports are none.
    """
    scheme, rest = _split(text)
    if scheme != "tcp":
        return InProcessAddress(rest) if scheme == "inproc" else _unix(text, rest)
    reached, _, bound = rest.partition("@")
    host, ports = _host_and_ports(text, reached)
    bound = bound or host
    if is_name(bound):
        raise UsageError(
            f"address {text!r}: expected an IP address to listen at, got {bound!r}"
        )
    first, is_range, last = ports.partition("-")
    least = _port(text, first)
    return TcpListening(host, bound, least, _port(text, last) if is_range else least)


def is_name(host: str) -> bool:
    """Whether a host is to be looked up, and is no IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def is_loopback(host: str) -> bool:
    """Whether a host, an IP address or a name, is this machine for whoever asks."""
    if is_name(host):
        return host.rstrip(".").rpartition(".")[2] == "localhost"  # RFC 6761
    return ipaddress.ip_address(host).is_loopback


def parse_host(text: str, host: str) -> str:
    """Read an IP address or a name; ``text`` is what it stands in.

    Raises:
        UsageError: it is neither, or has a scope id.
    """
    if "%" in host:
        raise UsageError(
            f"{text}: {host!r} has a scope id, which means something on one machine alone: "
            "expected an address that all machines reach"
        )
    if not is_name(host):
        return str(ipaddress.ip_address(host))
    last = host.rstrip(".").rpartition(".")[2]
    is_well_formed = _NAME.fullmatch(host) and len(host) <= _MAX_NAME_CHARACTERS
    if not is_well_formed or _NUMBER.fullmatch(last):
        raise UsageError(f"{text}: expected an IP address or a name, got {host!r}")
    return host.lower()


def _split(text: str) -> tuple[str, str]:
    scheme, _, rest = text.partition(":")
    if scheme not in _FORMS or not rest:
        raise UsageError(f"address {text!r}: expected {', '.join(_FORMS.values())}")
    return scheme, rest


def _unix(text: str, path: str) -> UnixAddress:
    num_bytes = len(path.encode())
    if not path.startswith("/"):
        raise UsageError(f"address {text!r}: the socket path must be absolute")
    if num_bytes > MAX_PATH_BYTES:
        raise UsageError(
            f"address {text!r}: a socket path has at most {MAX_PATH_BYTES} bytes, this "
            f"one has {num_bytes}; choose a shorter folder"
        )
    return UnixAddress(path)


def _host_and_ports(text: str, rest: str) -> tuple[str, str]:
    is_bracketed = rest.startswith("[")
    host, _, ports = rest[1:].partition("]:") if is_bracketed else rest.rpartition(":")
    found = parse_host(f"address {text!r}", host)
    if (":" in found) != is_bracketed:
        raise UsageError(f"address {text!r}: expected {_FORMS['tcp']}")
    return found, ports


def _port(text: str, port: str) -> int:
    if port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < MOST_PORTS:
        return int(port)
    raise UsageError(f"address {text!r}: expected a port from 0 to 65535, got {port!r}")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host

"""Where a role can be reached, as text.

::

    unix:/run/paceline/x.sock     a Unix socket on this host
    tcp:127.0.0.1:4711            TCP; port 0: any free one, for listening only
    tcp:[::1]:4711                the same over IPv6
    inproc:coordinator            a listener of this process

A host is an IP address, not a name: looking a name up has no deadline, and whoever answers
for the name chooses who is asked.

Pure.
"""

import ipaddress
from typing import NamedTuple

from paceline.errors import UsageError

MAX_PATH_BYTES = 107  # sockaddr_un holds 108 with the closing zero
_FORMS = {
    "unix": "unix:/path/to.sock",
    "tcp": "tcp:127.0.0.1:4711 or tcp:[::1]:4711",
    "inproc": "inproc:name",
}


class UnixAddress(NamedTuple):
    """A Unix socket on this host."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


class TcpAddress(NamedTuple):
    """A port of an IPv4 or IPv6 address, which is in its shortest form."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp:{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this host can reach it."""
        return ipaddress.ip_address(self.host).is_loopback


class InProcessAddress(NamedTuple):
    """A listener of this process."""

    name: str

    def __str__(self) -> str:
        return f"inproc:{self.name}"


Address = UnixAddress | TcpAddress | InProcessAddress


def parse_address(text: str) -> Address:
    """Read an address.

    Raises:
        UsageError: unknown scheme, no name, a host that is no IP address, or a socket path
            that the kernel cannot hold.
    """
    scheme, _, rest = text.partition(":")
    if scheme not in _FORMS or not rest:
        raise UsageError(f"address {text!r}: expected {', '.join(_FORMS.values())}")
    if scheme == "inproc":
        return InProcessAddress(rest)
    return _unix(text, rest) if scheme == "unix" else _tcp(text, rest)


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


def _tcp(text: str, rest: str) -> TcpAddress:
    is_bracketed = rest.startswith("[")
    host, _, port = rest[1:].partition("]:") if is_bracketed else rest.rpartition(":")
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        found = None
    if found is None or (found.version == 6) != is_bracketed:
        raise UsageError(
            f"address {text!r}: expected {_FORMS['tcp']}, with an IP address and not a name"
        )
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 1 << 16):
        raise UsageError(f"address {text!r}: expected a port from 0 to 65535, got {port!r}")
    return TcpAddress(str(found), int(port))

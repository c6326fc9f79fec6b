"""Where a role can be reached, as text.

::

    unix:/run/paceline/x.sock     a Unix socket on this host
    inproc:coordinator            a listener of this process

Pure.
"""

from typing import NamedTuple

from paceline.errors import UsageError

MAX_PATH_BYTES = 107  # sockaddr_un holds 108 with the closing zero


class UnixAddress(NamedTuple):
    """A Unix socket on this host."""

    path: str

    def __str__(self) -> str:
        """As it is written in messages and on the command line."""
        return f"unix:{self.path}"


class InProcessAddress(NamedTuple):
    """A listener of this process."""

    name: str

    def __str__(self) -> str:
        """As it is written in messages and on the command line."""
        return f"inproc:{self.name}"


Address = UnixAddress | InProcessAddress


def parse_address(text: str) -> Address:
    """Read an address.

    Raises:
        UsageError: unknown scheme, no name, or a socket path that the kernel cannot hold.
    """
    scheme, _, rest = text.partition(":")
    if scheme not in {"unix", "inproc"} or not rest:
        raise UsageError(f"address {text!r}: expected unix:/path/to.sock or inproc:name")
    if scheme == "inproc":
        return InProcessAddress(rest)
    num_bytes = len(rest.encode())
    if not rest.startswith("/"):
        raise UsageError(f"address {text!r}: the socket path must be absolute")
    if num_bytes > MAX_PATH_BYTES:
        raise UsageError(
            f"address {text!r}: a socket path has at most {MAX_PATH_BYTES} bytes, this "
            f"one has {num_bytes}; choose a shorter folder"
        )
    return UnixAddress(rest)


def parse_unix_address(text: str) -> UnixAddress:
    """Read an address that must be a Unix socket.

    Raises:
        UsageError: it is something else.
    """
    address = parse_address(text)
    if not isinstance(address, UnixAddress):
        raise UsageError(f"address {text!r}: expected unix:/path/to.sock")
    return address


def parse_inprocess_address(text: str) -> InProcessAddress:
    """Read an address that must be in this process.

    Raises:
        UsageError: it is something else.
    """
    address = parse_address(text)
    if not isinstance(address, InProcessAddress):
        raise UsageError(f"address {text!r}: expected inproc:name")
    return address

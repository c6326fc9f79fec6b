"""Where the roles of a job on this machine listen.

::

    unix   <private folder>/<role>.sock
    tcp    a port of 127.0.0.1, or of another address of this host, for each role, which the
           launcher holds while the job runs

An address is told before anybody listens there, and is the same after a restart: whoever
looks for a role that died finds its successor there, and is told by it what has changed.

Waits: for nothing.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from paceline.transport.streams import hold_port

Transport = Literal["unix", "tcp"]

LOOPBACK = "127.0.0.1"


@contextlib.contextmanager
def hold_addresses(
    transport: Transport, sockets: Path, roles: Sequence[str], host: str = LOOPBACK
) -> Iterator[dict[str, str]]:
    """Where roles will listen, and nobody else while this is held: {role: address}.

    Over Unix sockets in the private folder ``sockets``; over TCP at ``host``, an IP address
    of this machine that whoever asks them can reach.

    Raises:
        UsageError: the host is none of this machine's.
    """
    with contextlib.ExitStack() as stack:
        if transport == "unix":
            yield {role: f"unix:{sockets / role}.sock" for role in roles}
        else:
            yield {role: str(stack.enter_context(hold_port(host))) for role in roles}

"""Large frames that vanish on a path where small ones pass: seen, and said.

A part of a path (a tunnel, an overlay, a switch) may take only packets smaller than both
ends send, and drop the others without a word. Then connections are made, and whatever needs
a full packet is sent again and again by the kernel, in vain. A machine that has vanished
looks the same, until a connection is made: so it is said at the second time in a row, when
one was made in between.

Any thread may call.
"""

import contextlib
import os
import socket
from typing import final

from paceline.errors import LARGE_DO_NOT_PASS
from paceline.transport.streams.pieces import AnySocket

_INFO_BYTES = 8  # of the kernel's tcp_info
_RETRANSMITS = 2  # a byte: how often the oldest bytes were sent again, in vain
_OFTEN = 3  # a second and a half, and more

_LARGE_BYTES = 16 << 10  # several packets

_suspects: set[str] = set()  # addresses; each change is one step for other threads


@final
class LargeFrames:
    """Whether those of one connection pass.

    Attributes:
        is_doubted: those of the last one to this address did not.
    """

    def __init__(self, address: str, sock: AnySocket) -> None:
        """A connection was made, and so small frames do."""
        self._address, self._socket = address, sock
        self.is_doubted = address in _suspects
        self._has_sent = False

    def sends(self, num_bytes: int) -> None:
        """A request of so many bytes is sent."""
        self._has_sent = self._has_sent or num_bytes >= _LARGE_BYTES

    def answered(self) -> None:
        """There is a reply, and so what was sent before the one that it is to has come."""
        if self._has_sent:
            _suspects.discard(self._address)
            self.is_doubted = False

    def why(self) -> str:
        """What is to be added to the reason of a loss; empty, if it is another one."""
        if not is_resending(self._socket):
            return ""
        if self.is_doubted and self._has_sent:
            return f"; {LARGE_DO_NOT_PASS}"
        _suspects.add(self._address)
        return ""


def is_resending(sock: AnySocket) -> bool:
    """Whether the kernel has sent the same bytes again several times, and nobody took them.

    Never over a Unix socket, or one that is closed.
    """
    with contextlib.suppress(OSError):
        descriptor = os.dup(sock.fileno())
        with socket.socket(fileno=descriptor) as same:
            info = same.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
            return info[_RETRANSMITS] >= _OFTEN
    return False

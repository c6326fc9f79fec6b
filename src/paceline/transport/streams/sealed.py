"""A socket whose bytes travel sealed, as the streams use it: `tls` has the only one.

By this name TLS is known where no job without it should have to load it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable


class Sealed(ABC):
    """Has the methods of a non-blocking stream socket that streams use, and four more.

    What cannot be done at once raises `BlockingIOError`. A sender must come back with the
    same bytes then, or with none any more: some have been sealed.

    Any thread may call; one at a time receives.
    """

    family: int

    @abstractmethod
    def shake(self) -> bytes | None:
        """Go on with what comes before the first byte, as a client; None: not done yet.

        Done: where the listener is, as a handshake's transcript has it.

        Raises:
            PeerLost: the stream has ended.
            ForeignPeer: the listener seals nothing.
            FrameRefused: the other end is no listener of ours.
        """

    @abstractmethod
    def has_unread(self) -> bool:
        """Whether bytes have been opened that nobody has read: these wake no poll."""

    @abstractmethod
    def needs(self, wanted: int) -> int:
        """What to poll for who wants to read (`select.POLLIN`), to write, or both.

        With bytes that nobody has read a reader is woken as soon as there is room to write.
        """

    @abstractmethod
    def may_read(self, events: int) -> bool:
        """Whether reading may bring something, after these events."""

    @abstractmethod
    def fileno(self) -> int:
        """The socket's."""

    @abstractmethod
    def recv_into(self, view: memoryview) -> int:
        """Receive some bytes; 0: the stream has ended."""

    @abstractmethod
    def recvmsg_into(
        self, views: Iterable[memoryview], ancillary_bytes: int = 0, flags: int = 0
    ) -> tuple[int, list[tuple[int, int, bytes]], int, object]:
        """Receive some bytes into the first of some views; nothing else comes along."""

    @abstractmethod
    def send(self, view: memoryview, flags: int = 0) -> int:
        """Send some bytes of a view."""

    @abstractmethod
    def sendmsg(
        self, views: Iterable[memoryview], ancillary: Iterable[object] = (), flags: int = 0
    ) -> int:
        """Send some bytes of some views; nothing else goes along."""

    @abstractmethod
    def shutdown(self, how: int) -> None:
        """As of a socket; whoever waits is woken."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the descriptor; nobody is inside a call, or this is a forked child."""

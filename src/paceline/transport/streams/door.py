"""What is different between kinds of stream sockets, for those who listen."""

import socket
from abc import ABC, abstractmethod

from paceline.transport.handshake import Secret


class Door(ABC):
    """A bound, listening, non-blocking socket.

    Both ends of a connection must prove ``secret``, if there is one; the address has the
    port that was found.
    """

    def __init__(self, address: str, sock: socket.socket, secret: Secret | None) -> None:
        self.address = address
        self.socket = sock
        self.secret = secret

    @abstractmethod
    def prepare(self, sock: socket.socket) -> None:
        """Make an accepted socket ready for frames."""

    @abstractmethod
    def objection(self, sock: socket.socket) -> str | None:
        """Why an accepted socket may not even say hello; None: it may."""

    @abstractmethod
    def origin(self, sock: socket.socket) -> str:
        """Where an accepted socket comes from, for the log."""

    @abstractmethod
    def place(self, sock: socket.socket) -> bytes:
        """Where the other end has reached us, as it sees it too; see `greeting`."""

    @abstractmethod
    def vacate(self) -> None:
        """Give the address back; what is connected stays so. Once."""

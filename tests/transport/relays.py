"""Somebody between two ends: passes bytes on, changes them, keeps them, or ends TLS."""

import os
import select
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Self, final

from paceline.transport.address import TcpAddress
from paceline.transport.streams.tls import Certificate, _client_context
from tests.transport.corridors import PATIENCE_S

Change = Callable[[str, int, bytes], bytes]
"""(way, bytes that went it before, bytes) -> bytes; ``way`` is "up" to the listener."""


def as_it_came(way: str, position: int, data: bytes) -> bytes:
    del way, position
    return data


@final
class Relay:
    """Takes connections at a port of its own, and passes on what is said, in a thread.

    ``ends_tls``: it speaks TLS to both sides, and sees what is within.
    """

    def __init__(
        self, there: TcpAddress, change: Change = as_it_came, *, ends_tls: bool = False
    ) -> None:
        self._there, self._change = there, change
        self._certificate = Certificate("a relay") if ends_tls else None
        self._door = socket.create_server(("127.0.0.1", 0))
        self._door.settimeout(PATIENCE_S)
        self.where = TcpAddress("127.0.0.1", self._door.getsockname()[1])
        self.said: dict[str, bytearray] = {}  # {way: all bytes of the last connection}
        self._thread = threading.Thread(target=self._run, name="relay")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self._door.close()

    def _run(self) -> None:
        while True:
            try:
                near, _ = self._door.accept()
            except OSError:  # it is shut
                return
            far = socket.create_connection(self._there, PATIENCE_S)
            self.said = {"up": bytearray(), "down": bytearray()}
            try:
                self._pass_on(*self._ends(near, far))
            except OSError:  # as good as an end
                pass
            finally:
                near.close()
                far.close()

    def _ends(
        self, near: socket.socket, far: socket.socket
    ) -> tuple[socket.socket, socket.socket]:
        near.settimeout(PATIENCE_S)
        if self._certificate is None:
            return near, far
        inside = _client_context(os.getpid()).wrap_socket(far)
        return self._certificate._context.wrap_socket(near, server_side=True), inside

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        with near, far:
            while True:
                ready = [it for it in (near, far) if unread(it)]
                if not ready:
                    ready = wait_readable(near, far)
                for end in ready:
                    way, other = ("up", far) if end is near else ("down", near)
                    data = end.recv(1 << 16)
                    if not data:
                        return
                    said = self.said[way]
                    position = len(said)
                    said += data
                    other.sendall(self._change(way, position, data))


def wait_readable(*ends: socket.socket) -> list[socket.socket]:
    # Not `select`: a run of all tests has more than 1,024 descriptors.
    poll, by_fd = select.poll(), {end.fileno(): end for end in ends}
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    return [by_fd[fd] for fd, _ in poll.poll(PATIENCE_S * 1000)]


def unread(sock: socket.socket) -> bool:
    return isinstance(sock, ssl.SSLSocket) and sock.pending() > 0

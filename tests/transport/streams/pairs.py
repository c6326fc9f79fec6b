"""Two ends of TLS in one test, without a listener."""

import select
import socket
import time

from paceline.transport.streams.pieces import wait_events
from paceline.transport.streams.tls import Certificate, TlsSocket, sealed
from tests.transport.corridors import PATIENCE_S


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        mine = socket.create_connection(door.getsockname(), PATIENCE_S)
        theirs, _ = door.accept()
    mine.setblocking(False)
    theirs.setblocking(False)
    return mine, theirs


def tls_pair(certificate: Certificate | None = None) -> tuple[TlsSocket, TlsSocket]:
    """A client's end and a listener's, which have shaken hands."""
    mine, theirs = tcp_pair()
    client = sealed(mine)
    listener = (certificate or Certificate("a test")).seal(theirs)
    until = time.monotonic() + PATIENCE_S
    while None in (client.shake(), listener_shake(listener)):
        assert time.monotonic() < until
    return client, listener


def listener_shake(listener: TlsSocket) -> bytes | None:
    with listener._lock:
        return b"done" if listener._shake() else None


def send_all(sink: TlsSocket, data: bytes) -> None:
    rest = memoryview(data)
    while rest.nbytes:
        try:
            rest = rest[sink.send(rest) :]
        except BlockingIOError:
            assert wait_events(sink, select.POLLOUT, PATIENCE_S)


def receive_all(source: TlsSocket, num_bytes: int) -> bytes:
    data = bytearray(num_bytes)
    rest = memoryview(data)
    while rest.nbytes:
        try:
            count = source.recv_into(rest)
        except BlockingIOError:
            assert wait_events(source, select.POLLIN, PATIENCE_S)
        else:
            assert count, "the stream has ended"
            rest = rest[count:]
    return bytes(data)

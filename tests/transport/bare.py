"""The other end of a socket, without the rules of the house: to break them."""

import os
import socket
import threading
from collections.abc import Callable

import msgspec
import numpy as np

from paceline.errors import PeerLost
from paceline.transport.address import TcpAddress, UnixAddress, parse_address
from paceline.transport.frames import (
    DATA_LIMITS,
    HANDSHAKE_LIMITS,
    Header,
    Kind,
    Preamble,
    encode_frame,
)
from paceline.transport.greeting import Introduction, Reception
from paceline.transport.handshake import (
    NONCE_BYTES,
    Challenge,
    Farewell,
    Hello,
    HelloCheck,
    Proof,
    Welcome,
)
from paceline.transport.streams.pieces import Frame, FrameReader, Placed
from paceline.transport.streams.sockets import place_reached
from tests.transport.corridors import HELLO, PATIENCE_S, Corridor, Park, Said, Say


def flat(pieces: list[memoryview]) -> bytes:
    return b"".join(bytes(piece) for piece in pieces)


def hello_bytes(message: msgspec.Struct) -> bytes:
    return flat(encode_frame(Kind.HELLO, 0, message, (), HANDSHAKE_LIMITS))


def place(preamble: Preamble, header: Header) -> Placed:
    assert preamble.kind in Kind
    known = Hello | Challenge | Proof | Welcome | Farewell | Say | Said | Park
    message = msgspec.msgpack.decode(header.message, type=known)
    return message, [np.empty(size, np.uint8) for size in header.sizes]


class BareSocket:
    """A socket that speaks frames but keeps no rule; blocks, at most `PATIENCE_S`."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        sock.settimeout(PATIENCE_S)
        self._reader = FrameReader(DATA_LIMITS, place)

    def read(self) -> Frame:
        frame = self._reader.receive(self.socket)
        assert frame is not None
        return frame

    def read_to_end(self) -> list[msgspec.Struct | None]:
        messages = []
        try:
            while True:
                messages.append(self.read().message)
        except PeerLost:
            return messages

    def send(self, data: bytes, *, slowly: bool = False) -> None:
        step = 1 if slowly else max(1, len(data))
        for position in range(0, len(data), step):
            self.socket.sendall(data[position : position + step])


def introduction(
    peer: BareSocket, corridor: Corridor, hello: Hello = HELLO
) -> Introduction:
    """What a client of the house would say here."""
    secret = corridor.security.secret
    if secret is None:
        return Introduction(hello, None, b"", b"")
    here = place_reached(peer.socket)
    return Introduction(hello, secret, here, os.urandom(NONCE_BYTES))


def bare_client(corridor: Corridor) -> BareSocket:
    """Connected, and silent."""
    where = parse_address(corridor.address)
    if isinstance(where, UnixAddress):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(where.path)
    else:
        assert isinstance(where, TcpAddress)
        sock = socket.create_connection(where, PATIENCE_S)
    return BareSocket(sock)


def greeted_client(corridor: Corridor, *, slowly: bool = False) -> BareSocket:
    """Connected, and let in."""
    peer = bare_client(corridor)
    mine = introduction(peer, corridor)
    message: Hello | Proof | Welcome = mine.hello
    while not isinstance(message, Welcome):
        peer.send(hello_bytes(message), slowly=slowly)
        answer = peer.read().message
        assert isinstance(answer, Challenge | Welcome)
        message = mine.answer(answer)
    return peer


class BareListener:
    """Accepts one connection, shakes hands, then does what the test says, in a thread."""

    def __init__(
        self,
        corridor: Corridor,
        script: Callable[[BareSocket], None],
        *,
        shakes_hands: bool = True,
    ) -> None:
        self._script = script
        self._corridor = corridor
        self._shakes_hands = shakes_hands
        self._where = where = parse_address(corridor.address)
        if isinstance(where, UnixAddress):
            self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._door.bind(where.path)
        else:
            assert isinstance(where, TcpAddress)
            self._door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._door.bind(where)
        self._door.listen()
        self._door.settimeout(PATIENCE_S)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE_S)
        self._door.close()
        if isinstance(self._where, UnixAddress):
            os.unlink(self._where.path)

    def _run(self) -> None:
        sock, _ = self._door.accept()
        with sock:
            peer = BareSocket(sock)
            if self._shakes_hands:
                self._welcome(peer)
            self._script(peer)

    def _welcome(self, peer: BareSocket) -> None:
        secrets = self._corridor.security.accepted
        here = b"" if not secrets else place_reached(_Mirrored(peer.socket))  # type: ignore[arg-type]
        check = HelloCheck("run-1", "server-0", {"trainer"})
        reception = Reception(check, secrets, here, os.urandom(NONCE_BYTES))
        answer: msgspec.Struct = Farewell("")
        while not isinstance(answer, Welcome):
            answer = reception.answer(peer.read().message)
            peer.send(hello_bytes(answer))


class _Mirrored:
    """An accepted socket as its other end sees it."""

    def __init__(self, sock: socket.socket) -> None:
        self.getpeername = sock.getsockname

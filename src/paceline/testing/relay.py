"""A relay of TCP connections that is far away, that lies, or that falls silent.

::

    who connects --- relay --- target
         there: so many seconds later ->
      <- back: so many seconds later

Time on the way is no narrowness: what is on its way may be `ON_THE_WAY` bytes each way of a
connection, and a relay in a process of its own (`python -m paceline.testing.relay`) carries
hundreds of MB/s. Making a connection takes no time: only what is said in it is late. As a
forwarder between two addresses it does what a translated address does.

Waits: in a thread of its own, for sockets and for what is due; its methods, `ANSWER_S` at
most. Any thread may call.
"""

import argparse
import asyncio
import contextlib
import selectors
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from typing import Literal, NamedTuple, final

from paceline.testing.machines import Machine
from paceline.timing import SystemClock

Way = Literal["there", "back"]
Address = tuple[str, int]  # an IP address, and a port
PIECE = 256 * 1024  # bytes that are read at once
ON_THE_WAY = 32 * 1024 * 1024  # bytes
ANSWER_S = 10.0
ANYWHERE: Address = ("127.0.0.1", 0)
_RESET = struct.pack("ii", 1, 0)  # a closed socket says that it was, and sends nothing more


@final
class Relay:
    """Forwards whoever connects, while its ``with`` lasts.

    Attributes:
        address: where it listens.
        flipped: bits that were turned so far.
    """

    def __init__(
        self,
        target: Address,
        listen: Address = ANYWHERE,
        *,
        machine: Machine | None = None,
        there_s: float = 0.0,
        back_s: float = 0.0,
    ) -> None:
        """Listen; nobody is forwarded yet.

        Args:
            target: where connections go.
            listen: where they come in; with port 0, at a free one.
            machine: where the relay runs; without, where the tests do. It takes no part in
                what is done to the machine's processes.
            there_s: from who connects to the target.
            back_s: the other way.

        Raises:
            OSError: it cannot listen there.
        """
        self.flipped = 0
        self._target = target
        self._delays_s: dict[Way, float] = {"there": there_s, "back": back_s}
        self._clock = SystemClock()
        self._flips: dict[Way, int] = {}  # {way: bytes from now on, before the one}
        self._inside = contextlib.nullcontext if machine is None else machine.inside
        with self._inside():
            self._listener = _socket(listen[0])
        try:
            self._listener.bind(listen)
            self._listener.listen()
        except OSError:
            self._listener.close()
            raise
        self.address: Address = self._listener.getsockname()[:2]
        self._open: set[asyncio.Task[None]] = set()  # the connections
        # Of whole milliseconds; `select` is sharper, and knows 1,024 descriptors only.
        self._loop = asyncio.SelectorEventLoop(selectors.EpollSelector())
        self._is_over = asyncio.Event()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def __enter__(self) -> "Relay":
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; open connections are reset."""
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join(ANSWER_S)
        self._loop.close()
        self._listener.close()

    def swap(self, target: Address) -> None:
        """Forward connections to another target; those that are open stay as they are."""
        self._target = target

    def flip_bit(self, way: Way, byte: int = 0) -> None:
        """Turn one bit of what goes that way: of the byte after so many from now on.

        Bytes count over all connections, from when the relay reads them.
        """
        self._do(lambda: self._flips.update({way: byte}))

    def hold(self) -> None:
        """Let nothing through, silently: connections stay, and new ones are taken."""
        self._do(self._is_open.clear)

    def release(self) -> None:
        """Let all through again, what was held first."""
        self._do(self._is_open.set)

    def drop(self) -> None:
        """Reset all connections, at both ends."""
        asyncio.run_coroutine_threadsafe(self._drop(), self._loop).result(ANSWER_S)

    def _do(self, act: Callable[[], object]) -> None:
        async def acted() -> None:
            act()

        asyncio.run_coroutine_threadsafe(acted(), self._loop).result(ANSWER_S)

    def _run(self) -> None:
        with self._inside():
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        listening = self._loop.create_task(self._listen())
        await self._is_over.wait()
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        await self._drop()

    async def _listen(self) -> None:
        while True:
            client, _ = await self._loop.sock_accept(self._listener)
            task = self._loop.create_task(self._carry(client))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def _drop(self) -> None:
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _carry(self, client: socket.socket) -> None:
        """One connection to its end."""
        with client, _socket(self._target[0]) as server:
            try:
                client.setblocking(False)
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._loop.sock_connect(server, self._target)
                await self._carry_both_ways(client, server)
            except (OSError, asyncio.CancelledError):
                for end in (client, server):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    async def _carry_both_ways(self, client: socket.socket, server: socket.socket) -> None:
        there, back = _OnTheWay("there"), _OnTheWay("back")
        steps = (
            self._read(client, there),
            self._write(server, there),
            self._read(server, back),
            self._write(client, back),
        )
        tasks = [self._loop.create_task(step) for step in steps]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _read(self, source: socket.socket, way: "_OnTheWay") -> None:
        data = bytearray(b"-")
        while data:
            await way.has_room.wait()
            try:
                data = bytearray(await self._loop.sock_recv(source, PIECE))
            except OSError as error:
                way.put(_Piece(self._due_s(way.way), error))
                return
            self._flip(way.way, data)
            way.put(_Piece(self._due_s(way.way), data))

    async def _write(self, sink: socket.socket, way: "_OnTheWay") -> None:
        while True:
            piece = await way.get()
            await asyncio.sleep(piece.due_s - self._clock.now_s())
            await self._is_open.wait()
            if isinstance(piece.data, OSError):
                raise piece.data
            if not piece.data:
                sink.shutdown(socket.SHUT_WR)
                return
            await self._loop.sock_sendall(sink, piece.data)

    def _due_s(self, way: Way) -> float:
        return self._clock.now_s() + self._delays_s[way]

    def _flip(self, way: Way, data: bytearray) -> None:
        before = self._flips.pop(way, None)
        if before is None:
            return
        if before < len(data):
            data[before] ^= 1
            self.flipped += 1
        else:
            self._flips[way] = before - len(data)


class _Piece(NamedTuple):
    due_s: float
    data: bytearray | OSError  # empty: nothing more comes; an error: nor is all there


@final
class _OnTheWay:
    """What one way of a connection has read and not written: in order, and bounded."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.has_room = asyncio.Event()
        self.has_room.set()
        self._pieces: asyncio.Queue[_Piece] = asyncio.Queue()
        self._bytes = 0

    def put(self, piece: _Piece) -> None:
        self._pieces.put_nowait(piece)
        self._count(piece, 1)

    async def get(self) -> _Piece:
        piece = await self._pieces.get()
        self._count(piece, -1)
        return piece

    def _count(self, piece: _Piece, sign: int) -> None:
        if isinstance(piece.data, bytearray):
            self._bytes += sign * len(piece.data)
        if self._bytes < ON_THE_WAY:
            self.has_room.set()
        else:
            self.has_room.clear()


def _socket(host: str) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made


def main() -> None:
    """Be a relay until a signal comes; its port is said at stdout when it listens."""
    parser = argparse.ArgumentParser(description="Forwards TCP connections, late.")
    parser.add_argument("host", help="where to listen: an IP address")
    parser.add_argument("port", type=int, help="0: a free one")
    parser.add_argument("target_host", help="an IP address")
    parser.add_argument("target_port", type=int)
    parser.add_argument("--there-ms", type=float, default=0.0)
    parser.add_argument("--back-ms", type=float, default=0.0)
    told = parser.parse_args()
    with Relay(
        (told.target_host, told.target_port),
        (told.host, told.port),
        there_s=told.there_ms / 1e3,
        back_s=told.back_ms / 1e3,
    ) as relay:
        sys.stdout.write(f"{relay.address[1]}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()

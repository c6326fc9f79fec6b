"""Many connections in one thread, each with one request on its way.

All are read by one epoll, and what they say is encoded by the product's own frames.

Waits: for replies, `ANSWER_S` at most.
"""

import select
import socket
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, final

import msgspec

from paceline.transport.frames import Header, Kind, Limits, Preamble, encode_frame
from paceline.transport.handshake import Hello
from paceline.transport.requests import allocate
from paceline.transport.streams.pieces import FrameReader, Placed

ANSWER_S = 60.0
RUN = "scale"


class Line:
    """One connection of a trainer that computes nothing."""

    def __init__(
        self,
        address: str,
        hello: Hello,
        replies: msgspec.msgpack.Decoder[msgspec.Struct],
        limits: Limits,
    ) -> None:
        """Connect and say hello; the answer is the first frame that comes."""
        self.name = hello.role
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(address.removeprefix("unix:"))
        self.socket.setblocking(False)
        self._number, self._limits = 0, limits

        def place(_: Preamble, header: Header) -> Placed:
            return replies.decode(header.message), allocate(header.sizes)

        self._reader = FrameReader(limits, place)
        self.say(hello, kind=Kind.HELLO)

    def say(
        self, message: msgspec.Struct, *buffers: memoryview, kind: Kind = Kind.REQUEST
    ) -> None:
        """Send a request; its answer is the next frame that comes."""
        self._number += 1
        pieces = encode_frame(kind, self._number, message, buffers, self._limits)
        self.socket.sendall(b"".join(pieces))

    def hear(self) -> msgspec.Struct | None:
        """The answer, if it is there.

        Raises:
            RuntimeError: it is no answer.
        """
        frame = self._reader.receive(self.socket)
        if frame is None:
            return None
        if frame.kind is Kind.ERROR or frame.message is None:
            raise RuntimeError(f"{self.name} was turned away: {frame}")
        self.take(frame.message)
        return frame.message

    def take(self, reply: msgspec.Struct) -> None:
        """Remember what the answer brings."""


L = TypeVar("L", bound=Line)


@final
class Lines(Generic[L]):
    """Connections that are read together."""

    def __init__(self, lines: Sequence[L]) -> None:
        """Shake hands with all of them."""
        self._epoll = select.epoll()
        self.all = list(lines)
        self._by_fd = {line.socket.fileno(): line for line in self.all}
        for fd in self._by_fd:
            self._epoll.register(fd, select.EPOLLIN)
        missing = len(self.all)
        while missing:
            missing -= len(self.heard())

    def keep(
        self, say: Callable[[L], None], answer: type[msgspec.Struct], seconds: float
    ) -> int:
        """Everybody says something as fast as it is answered; the number of answers.

        Raises:
            RuntimeError: somebody gets another answer.
        """
        for line in self.all:
            say(line)
        ends_s, count, under_way = time.perf_counter() + seconds, 0, len(self.all)
        while under_way:
            for line, reply in self.heard():
                if not isinstance(reply, answer):
                    raise RuntimeError(f"{line.name} wants {answer.__name__}, got {reply}")
                count += 1
                if time.perf_counter() < ends_s:
                    say(line)
                else:
                    under_way -= 1
        return count

    def heard(self) -> list[tuple[L, msgspec.Struct]]:
        """Who has been answered, after a wait for the first.

        Raises:
            TimeoutError: nobody is.
        """
        events = self._epoll.poll(ANSWER_S)
        if not events:
            raise TimeoutError(f"nothing was heard for {ANSWER_S:g} s")
        found = [(line, line.hear()) for line in (self._by_fd[fd] for fd, _ in events)]
        return [(line, reply) for line, reply in found if reply is not None]

    def forget(self, line: L) -> None:
        """One is read no more."""
        self.all.remove(line)
        self._epoll.unregister(line.socket.fileno())

    def close(self) -> None:
        """Everybody hangs up."""
        for line in self._by_fd.values():
            line.socket.close()
        self._epoll.close()

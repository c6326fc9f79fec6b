"""What the launcher and the fork server say to each other, and how it travels.

::

    launcher --Fork, Reap--> fork server --Ready, Forked, Failed, Reaped--> launcher

Each message is msgpack behind its length, four bytes, big-endian, on a stream socket.
Names, values and arguments are bytes, as the kernel has them: an environment need not be
UTF-8.

Waits: `send` and `receive`, as long as the socket's own time-out lets them.
"""

import socket
import struct
from typing import TypeVar

import msgspec

from paceline.errors import JobFailed

LONGEST = 16 << 20  # bytes of a message; an environment that execve takes is smaller

_T = TypeVar("_T")
_LENGTH = struct.Struct(">I")


class Fork(msgspec.Struct, frozen=True, tag=True):
    """Start a process; answered by `Forked` or `Failed`."""

    script: tuple[bytes, ...]  # and its arguments; empty: the environment names a role
    environment: dict[bytes, bytes]
    log: bytes
    is_module: bool = False  # the script is the name of one


class Reap(msgspec.Struct, frozen=True, tag=True):
    """Take leave of a process that has ended; answered by `Reaped`."""

    pid: int


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Everything is imported; said once, unasked."""


class Forked(msgspec.Struct, frozen=True, tag=True):
    """The process runs."""

    pid: int


class Failed(msgspec.Struct, frozen=True, tag=True):
    """There is no process: the kernel refused one."""

    reason: str


class Reaped(msgspec.Struct, frozen=True, tag=True):
    """The exit status; below zero it is the number of the signal."""

    status: int


Request = Fork | Reap
Answer = Ready | Forked | Failed | Reaped
REQUESTS: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
ANSWERS: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def send(channel: socket.socket, message: Request | Answer) -> None:
    """Send a message.

    Raises:
        JobFailed: it is longer than `LONGEST`; nothing was sent.
        OSError: the other end is gone, or does not read.
    """
    data = msgspec.msgpack.encode(message)
    if len(data) > LONGEST:
        raise JobFailed(
            f"a process needs an environment and arguments of at most {LONGEST:,} bytes, "
            f"got {len(data):,}: pass large things in files"
        )
    channel.sendall(_LENGTH.pack(len(data)) + data)


def receive(channel: socket.socket, messages: msgspec.msgpack.Decoder[_T]) -> _T | None:
    """Receive one of `REQUESTS` or `ANSWERS`; None when the other end hung up.

    Raises:
        OSError: the other end is gone, says nothing, or something else than a message.
    """
    length = _receive_bytes(channel, _LENGTH.size)
    if length is None:
        return None
    (count,) = _LENGTH.unpack(length)
    if count > LONGEST:
        raise ConnectionError(f"a message of {count:,} bytes is announced")
    data = _receive_bytes(channel, count)
    if data is None:
        return None
    try:
        return messages.decode(data)
    except msgspec.MsgspecError as error:
        raise ConnectionError(f"expected a message: {error}") from error


def _receive_bytes(channel: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        part = channel.recv(count - len(data))
        if not part:
            return None
        data += part
    return bytes(data)

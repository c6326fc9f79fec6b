"""What the launcher and the fork server say to each other, and how it travels.

::

    launcher --Fork, Reap--> fork server --Ready, Forked, Failed, Reaped--> launcher

Names, values and arguments are bytes, as the kernel has them: an environment need not be
UTF-8.

Waits for nothing; its channels do.
"""

import socket

import msgspec

from paceline.transport.frames import CONTROL_LIMITS
from paceline.transport.streams import FrameChannel

LIMITS = CONTROL_LIMITS  # an environment that execve takes is smaller


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
_ANSWERS: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_REQUESTS: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)


def to_fork_server(end: socket.socket) -> FrameChannel[Answer]:
    """The launcher's end."""
    return FrameChannel(end, _ANSWERS, LIMITS, "the fork server")


def to_launcher(end: socket.socket) -> FrameChannel[Request]:
    """The fork server's end."""
    return FrameChannel(end, _REQUESTS, LIMITS, "the launcher")

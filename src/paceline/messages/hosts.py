"""The link of a host, one agent for each machine, to the launcher of the job.

A host tells which processes of the job it has, a launcher which of them are to be: both
tell all of it each time, so that losing, repeating or delaying either changes nothing. A
process is named by a number that the launcher gives to no other one.
"""

from typing import Literal

import msgspec

from paceline.config import JobConfig
from paceline.messages.shared import Message

HostWish = Literal["run", "leave", "end", "kill"]
"""What is to become of a process: leave as SIGTERM tells the process itself, end as it
tells all that it has started."""


class JoinHost(Message, frozen=True):
    """Become a host of the job; a repeat with the same ``token`` changes nothing.

    ``name`` is what the machine calls itself, ``address`` its own towards the launcher: an
    IP address. Answered by `HostJoined`.
    """

    token: str
    name: str
    address: str
    cores: int


class HostScript(msgspec.Struct, frozen=True):
    """What trainers run; ``xxh3`` is the xxh3-64 of the file (hex), if it is one."""

    path: str
    arguments: tuple[str, ...]
    is_module: bool
    xxh3: str = ""


class HostJoined(Message, frozen=True):
    """The job, as a host needs it; ``versions`` are the launcher's, {distribution: it}."""

    host: str
    config: JobConfig
    script: HostScript
    coordinator: str
    versions: dict[str, str]


class HostExit(msgspec.Struct, frozen=True):
    """A process has ended: its exit status, and the last lines of its log.

    ``failure`` is the JSON text that its script has left of how it failed, if it has.
    """

    pid: int
    status: int
    lines: tuple[str, ...] = ()
    failure: bytes = b""


class HostReport(Message, frozen=True):
    """Which processes there are; answered by `HostOrders`, or refused if the host is lost.

    ``running`` is {number: pid}, ``ended`` {number: exit}: those that are still wished
    for. ``leaves``: why this machine cannot take part, or does no longer.
    """

    host: str
    token: str
    running: dict[int, int]
    ended: dict[int, HostExit]
    leaves: str = ""


class HostProcess(msgspec.Struct, frozen=True):
    """A process that the launcher wishes for."""

    role: str
    wish: HostWish


class HostOrders(Message, frozen=True):
    """All processes that are to be at a host, {number: process}; others are killed.

    ``is_over``: the job has ended, and the host may go.
    """

    processes: dict[int, HostProcess]
    is_over: bool = False

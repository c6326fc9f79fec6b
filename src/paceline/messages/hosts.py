"""The links of hosts, one agent for each machine, and of observers to the launcher.

A host tells which processes of the job it has, a launcher which of them are to be: both
tell all of it each time, so that losing, repeating or delaying either changes nothing. A
process is named by a number that the launcher gives to no other one.

Logs come in pieces, each with its place in the host's own: the launcher says how far it
has each log, and a piece that comes twice is taken once.

Who has no job folder asks the launcher where the coordinator is, and for its logs.
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

    ``name`` is what the machine calls itself, ``address`` where all others reach it.
    Answered by `HostJoined`.
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


class LogPiece(Message, frozen=True):
    """What the log of this name (a role's, mostly) holds from ``offset`` on, in bytes."""

    name: str
    offset: int
    text: bytes


class HostReport(Message, frozen=True):
    """Which processes there are; answered by `HostOrders`, or refused if the host is lost.

    ``running`` is {number: pid}, ``ended`` {number: exit}: those that are still wished
    for. ``leaves``: why this machine cannot take part, or does no longer. ``logs`` have
    grown, by that and if ``has_more`` by more.
    """

    host: str
    token: str
    running: dict[int, int]
    ended: dict[int, HostExit]
    leaves: str = ""
    logs: tuple[LogPiece, ...] = ()
    has_more: bool = False


class HostProcess(msgspec.Struct, frozen=True):
    """A process that the launcher wishes for."""

    role: str
    wish: HostWish


class HostOrders(Message, frozen=True):
    """All processes that are to be at a host, {number: process}; others are killed.

    ``is_over``: the job has ended, and the host may go. ``logs``: how far the launcher has
    those that the report told of.
    """

    processes: dict[int, HostProcess]
    is_over: bool = False
    logs: dict[str, int] = msgspec.field(default_factory=dict)  # {name: bytes}


class AskPlace(Message, frozen=True):
    """Ask where the job's coordinator is; answered by `JobPlace`."""


class JobPlace(Message, frozen=True):
    """The run, and where its coordinator listens."""

    run: str
    coordinator: str


class AskLogs(Message, frozen=True):
    """Ask which logs there are; answered by `LogSizes`."""


class LogSizes(Message, frozen=True):
    """All logs that the launcher has, {name: bytes}; ``is_over``: they grow no more."""

    sizes: dict[str, int]
    is_over: bool = False


class AskLog(Message, frozen=True):
    """Ask for a piece of a log; answered by `LogPiece`, empty at its end, or refused."""

    name: str
    offset: int

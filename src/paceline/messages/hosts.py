"""The links of hosts, one agent for each machine, and of observers to the launcher.

A host tells which processes of the job it has, a launcher which of them are to be: both
tell all of it each time, so that losing, repeating or delaying either changes nothing. A
process is named by a number that the launcher gives to no other one.

Logs come in pieces, each with its place in the host's own: the launcher says how far it
has each log, and a piece that comes twice is taken once.

Who has no job folder asks the launcher where the coordinator is, and for its logs.

Before a job a machine may be examined in its place: who joins is told so, and reports what
it has found, all of it each time.
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

    ``name`` is what the machine calls itself, ``address`` where all others reach it. It
    takes so many servers and trainers at most; None: any number, or of trainers as many as
    the run has for each machine. Answered by `HostJoined`.
    """

    token: str
    name: str
    address: str
    cores: int
    servers: int | None = None
    trainers: int | None = None


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
    grown, by that and if ``has_more`` by more. ``trainers``: it takes so many from now on;
    None: as many as it said when it joined.
    """

    host: str
    token: str
    running: dict[int, int]
    ended: dict[int, HostExit]
    leaves: str = ""
    logs: tuple[LogPiece, ...] = ()
    has_more: bool = False
    trainers: int | None = None


class HostProcess(msgspec.Struct, frozen=True):
    """A process that the launcher wishes for."""

    role: str
    wish: HostWish


class HostOrders(Message, frozen=True):
    """All processes that are to be at a host, {number: process}; others are killed.

    ``is_over``: the run has ended, and the host may go: with the exit code ``status``, and
    if that is not 0 as ``ending`` says; ``goes_on``: but not the job, which another run
    goes on with. ``logs``: how far the launcher has those that the report told
    of.
    """

    processes: dict[int, HostProcess]
    is_over: bool = False
    logs: dict[str, int] = msgspec.field(default_factory=dict)  # {name: bytes}
    goes_on: bool = False
    status: int = 0
    ending: str = ""


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


class ExamJoined(Message, frozen=True):
    """There is no job: this machine is examined before one; answers `JoinHost`.

    ``checkpoints`` is where they would lie, ``script`` what trainers would run; empty: not
    named.
    """

    host: str
    checkpoints: str = ""
    script: HostScript | None = None


class MachineFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a machine is; ``lacks``: why it cannot run the script, if one is named.

    ``versions`` are {distribution, or Python: its own}; bytes of memory are those that a
    process can still have, of the disk those that are free where the agent runs.
    """

    cores: int
    memory_bytes: int
    disk_bytes: int
    num_files: int  # that a process may have open
    versions: dict[str, str]
    lacks: str = ""


class ProbeResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One machine has tried another; empty errors: frames pass.

    With ``error`` nothing else is known; with ``large_error`` small frames pass.
    """

    error: str = ""
    large_error: str = ""
    round_trip_s: float = 0.0
    bytes_per_s: float = 0.0


class ExamReport(Message, frozen=True):
    """What an examined machine has found so far; answered by `ExamOrders`, or refused.

    ``wall_s`` is its clock's, seconds since 1970. ``probes`` are {host: result}; ``files``
    {name: why it could not be written or read, or empty}. ``leaves``: why it goes.
    """

    host: str
    token: str
    wall_s: float
    facts: MachineFacts
    probes: dict[str, ProbeResult] = msgspec.field(default_factory=dict)
    files: dict[str, str] = msgspec.field(default_factory=dict)
    leaves: str = ""


class ExamOrders(Message, frozen=True):
    """What is to be found out next, unless it has been.

    ``probes`` are {host: its address and token}, the others names of files. ``is_over``:
    nothing more, and the machine may go.
    """

    probes: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    writes: str = ""
    reads: tuple[str, ...] = ()
    is_over: bool = False


class Echo(Message, frozen=True):
    """Say that this has come; answered by `Echoed`."""

    load: bytes = b""


class Echoed(Message, frozen=True):
    """So many bytes have come."""

    num_bytes: int

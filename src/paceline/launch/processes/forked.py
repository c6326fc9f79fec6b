"""The fork server's process: imports once what is slow to import, then forks on request.

::

    launcher --Fork, Reap--> fork server --Says, Ready, Forked, Failed, Reaped--> launcher

Started by `ForkServer` as ``python -P -m paceline.launch.processes.forked``, with a
descriptor, the launcher's process id, and the modules to import. Answers over that
descriptor, one message at a time, and ends when the other end is closed. It runs one thread
of Python and does no work of its own: what it forks is as good as freshly started. Names,
values and arguments are bytes, as the kernel has them: an environment need not be UTF-8.

A forked process becomes the leader of a session and group of its own, writes to its log,
has the environment it was asked for, dies with the fork server (which dies with the
launcher), and then runs its role, or the user's script as ``python script.py`` would.

Waits: for requests, without a bound: it lives as long as the launcher. Source for the
seeds: forked children share NumPy's global random state unless they are seeded anew.
"""

import atexit
import contextlib
import gc
import importlib
import io
import logging
import os
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, final

import msgspec

from paceline import failpoints
from paceline.errors import (
    DISK_EXIT_CODE,
    PacelineError,
    PeerLost,
    Preempted,
    StoreFull,
    why_full,
)
from paceline.launch.job import GROUP_INDEX, ROLE, THREADS, read_place
from paceline.launch.processes.exits import exit_code_of
from paceline.launch.processes.group import open_group, wait_group
from paceline.launch.processes.parent import die_with_parent, name_process
from paceline.launch.processes.role import run_role
from paceline.launch.processes.stacks import offer_stacks
from paceline.transport.frames import CONTROL_LIMITS
from paceline.transport.streams import FrameChannel

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PRELOADED = (
    "torch",
    "paceline.coordinator.service",
    "paceline.params.rows.compiled.distinct_kernels",
    "paceline.params.rows.compiled.kernels",
    "paceline.params.rows.compiled.step_kernels",
    "paceline.server.service",
    "paceline.trainer.session",
)

_BEFORE_A_SCRIPT = (__file__, "<frozen runpy>")  # files of a traceback's first lines
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


class Says(msgspec.Struct, frozen=True, tag=True):
    """What users are to know while it imports; before `Ready`, unasked."""

    text: str


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
Answer = Says | Ready | Forked | Failed | Reaped
ANSWERS: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
REQUESTS: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)


def main() -> None:
    """Serve until the launcher goes."""
    end = socket.socket(fileno=int(sys.argv[1]))
    channel = FrameChannel(end, REQUESTS, LIMITS, "the launcher")
    die_with_parent(int(sys.argv[2]), signal.SIGKILL)
    gc.disable()  # nothing of it is garbage, and to look takes a tenth of the time
    with _told(channel):
        for name in sys.argv[3:]:
            importlib.import_module(name)
    gc.freeze()  # a collection would write to, and so copy, every shared page
    gc.enable()
    channel.send(Ready())
    server = os.getpid()
    while True:
        try:
            request = channel.receive().message
        except PeerLost:
            return
        if isinstance(request, Reap):
            channel.send(Reaped(_reap(request.pid)))
            continue
        try:
            pid = os.fork()
        except OSError as error:  # no more processes, or no memory: others live on
            channel.send(Failed(str(error)))
            continue
        if pid == 0:
            channel.close()
            _leave(_run_to_status(request, server))
        channel.send(Forked(pid))


@contextlib.contextmanager
def _told(channel: FrameChannel[Request]) -> Iterator[None]:
    """Let users know what compiled kernels have to say, as that they are compiled."""

    def tell(record: logging.LogRecord) -> bool:
        channel.send(Says(record.getMessage()))
        return True  # the log has it, too

    log = logging.getLogger("paceline.kernels")
    log.addFilter(tell)
    yield
    log.removeFilter(tell)


def _reap(pid: int) -> int:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # reaped by somebody else: nobody knows how it ended
        return -signal.SIGKILL


@final
class LogFile(io.RawIOBase):
    """A descriptor that takes everything, and keeps what its disk does.

    A ``print`` must not end a script because there is no space for its line: the line is
    lost, and the log says how many bytes were once there is space again.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        """Write to this descriptor, which stays open; ``name`` is as Python has it."""
        super().__init__()
        self.name = name
        self._descriptor = descriptor
        self._lost = 0  # bytes, since the last ones that were written

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write all of it, or lose what the disk does not take."""
        whole = memoryview(data).cast("B")
        rest = whole
        try:
            if self._lost and rest:
                said = f"(the disk was full: {self._lost:,} bytes are missing here)\n"
                os.write(self._descriptor, said.encode())
                self._lost = 0
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            if why_full(error) is None:
                raise
            self._lost += len(rest)
        return len(whole)


def open_log(path: bytes) -> None:
    """Let standard output and error go to this log; without one, to where they went."""
    try:
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        if why_full(error) is None:
            raise
    else:
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
    sys.stdout = _text(1, sys.stdout)
    sys.stderr = _text(2, sys.stderr)


def _text(descriptor: int, like: TextIO) -> io.TextIOWrapper:
    raw: Any = LogFile(descriptor, like.name)  # Any: as Python itself does it, unbuffered
    return io.TextIOWrapper(
        raw, encoding=like.encoding, errors=like.errors, write_through=True
    )


def _become(request: Fork) -> None:
    os.setsid()
    open_log(request.log)
    os.environ.clear()
    os.environb.update(request.environment)
    name_process(os.environ.get(ROLE, "paceline"))
    failpoints.arm(os.environ.get(failpoints.ARM_VARIABLE, ""))
    threads = os.environ.get(THREADS, "")
    if "torch" in sys.modules:  # which brings NumPy
        sys.modules["numpy"].random.seed()
        if threads.isdigit():
            sys.modules["torch"].set_num_threads(int(threads))


def _run(request: Fork, server: int) -> None:
    _become(request)
    if request.script:
        die_with_parent(server, signal.SIGKILL)
        open_group()
        _offer_stacks()
        arguments = [os.fsdecode(argument) for argument in request.script]
        (run_module if request.is_module else run_script)(arguments)
        return
    _offer_stacks()
    try:
        run_role(server)
    except StoreFull as error:
        print(f"StoreFull: {error}", file=sys.stderr)  # noqa: T201  (into its log)
        sys.exit(DISK_EXIT_CODE)
    except PacelineError as error:
        sys.exit(f"{type(error).__name__}: {error}")


def _offer_stacks() -> None:
    if (place := read_place(os.environ)) is not None:
        index = os.environ.get(GROUP_INDEX, "0")
        offer_stacks(place.sockets, place.role if index == "0" else f"{place.role}.{index}")


def _run_to_status(request: Fork, server: int) -> int:
    """The exit status that Python would end with."""
    try:
        _run(request, server)
    except SystemExit as leaving:
        if leaving.code not in {None, 0} and not isinstance(leaving, Preempted):
            _remember(leaving)
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        print(leaving.code, file=sys.stderr)  # noqa: T201  (what Python does)
        return 1
    except BaseException as error:  # noqa: BLE001  (told as Python tells it)
        if request.script:
            error.__traceback__ = _of_script(error)
        _remember(error)
        sys.excepthook(type(error), error, error.__traceback__)
        return exit_code_of(error)
    return 0


def _of_script(error: BaseException) -> TracebackType | None:
    """From the script's first line on, as Python shows it; all if it is no error of it."""
    shown = error.__traceback__
    while shown is not None and shown.tb_frame.f_code.co_filename in _BEFORE_A_SCRIPT:
        shown = shown.tb_next
    return shown if shown or isinstance(error, SyntaxError) else error.__traceback__


def _remember(error: BaseException) -> None:
    """As the interpreter would leave it to who looks for it at exit."""
    sys.last_type, sys.last_value = type(error), error
    sys.last_traceback = error.__traceback__


def _leave(status: int) -> NoReturn:
    """End as Python does, but without taking every shared object apart, page by page."""
    threading._shutdown()  # type: ignore[attr-defined]  # what multiprocessing calls too
    atexit._run_exitfuncs()
    status = wait_group(status)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 0xFF)


def run_script(arguments: Sequence[str]) -> None:
    """Run a script as ``__main__``, with its arguments and its folder on the path."""
    sys.argv = list(arguments)
    sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
    runpy.run_path(arguments[0], run_name="__main__")


def run_module(arguments: Sequence[str]) -> None:
    """Run a module by its name, as ``python -m`` does: found from the working folder."""
    sys.argv = list(arguments)
    sys.path.insert(0, str(Path.cwd()))
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

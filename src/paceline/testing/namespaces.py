"""Network namespaces by name: made, entered, looked into, removed.

A name says who made it, ``paceline-PID-START-...``: what a killed process has left behind
is known by its maker being gone, and the next one sweeps it.

Waits: for `ip`, `tc` and devices, `TOOL_S` at most, and for processes, `GONE_S`. Any thread
may call. Needs Linux, root (CAP_SYS_ADMIN, CAP_NET_ADMIN), and `ip` and `tc` of iproute2.
"""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import final

from paceline.errors import PacelineError
from paceline.timing import Deadline, SystemClock

NAMES = Path("/run/netns")  # where `ip netns` keeps them
TOOL_S = 10.0
GONE_S = 10.0  # from a signal to what it does; a process may be busy in the kernel
POLL_S = 0.005
_CLONE_NEWNET = 0x40000000
_OURS = re.compile(r"paceline-(\d+)-(\d+)-")
_FAILED_LINE = re.compile(r"Command failed -:(\d+)")


class MachineError(PacelineError):
    """Something could not be done on a machine; the text has the command and its words."""


@final
class Namespace:
    """A network namespace that has a name; see `make_namespace`."""

    def __init__(self, name: str) -> None:
        """Speak of the namespace ``name``, whether it is there or not."""
        self.name = name

    def ip(self, *commands: str) -> None:
        """Have `ip` do commands in it, all in one call, up to the first that fails.

        Raises:
            MachineError: one failed.
        """
        tool(f"ip -n {self.name} -batch -", commands)

    def wait_up(self, device: str) -> None:
        """Wait until a device carries: the kernel sets it up in its own time.

        Raises:
            MachineError: it does not within `TOOL_S`.
        """
        show, deadline = (
            f"ip -n {self.name} link show dev {device}",
            Deadline(SystemClock(), TOOL_S),
        )
        while " state UP " not in (found := tool(show)):
            if deadline.is_over():
                raise MachineError(f"{show}: not up after {TOOL_S:g} s: {found.strip()}")
            threading.Event().wait(POLL_S)

    def tc(self, command: str) -> None:
        """Have `tc` do a command in it.

        Raises:
            MachineError: it failed.
        """
        tool(f"tc -n {self.name} {command}")

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """This thread, and processes and threads that it starts, are in it meanwhile.

        A socket stays where it was made.

        Raises:
            MachineError: it is not there, or this user may not enter.
        """
        with _opened("/proc/thread-self/ns/net") as back:
            with _opened(str(NAMES / self.name)) as there:
                _enter(there, self.name)
            try:
                yield
            finally:
                _enter(back, "where this thread was")

    def processes(self) -> list[int]:
        """Ids of the processes in it but this one; who has ended unreaped is none."""
        try:
            wanted = (NAMES / self.name).stat()
        except FileNotFoundError:
            return []
        found = []
        for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
            with contextlib.suppress(OSError):  # it has ended
                its = os.stat(f"/proc/{pid}/ns/net")
                if (its.st_dev, its.st_ino) == (wanted.st_dev, wanted.st_ino):
                    found.append(pid)
        return [pid for pid in sorted(found) if pid != os.getpid()]

    def freeze(self) -> None:
        """Stop every process in it by SIGSTOP; all stand still on return.

        Raises:
            MachineError: one still runs.
        """
        self._signal_until(signal.SIGSTOP, lambda pid: _state(pid) in "TtZX")

    def thaw(self) -> None:
        """Have every stopped process in it go on."""
        for pid in self.processes():
            _send(pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill every process in it, as if at one moment: none sees another one's end.

        Raises:
            MachineError: one is still there.
        """
        self.freeze()
        self._signal_until(signal.SIGKILL, lambda _: False)

    def remove(self) -> None:
        """Kill what is in it and take it away; may be repeated.

        Raises:
            MachineError: something is still in it.
        """
        self.kill()
        try:
            tool(f"ip netns delete {self.name}")
        except MachineError:
            if (NAMES / self.name).exists():  # nobody else has swept it meanwhile
                raise

    def _signal_until(self, number: signal.Signals, is_done: Callable[[int], bool]) -> None:
        """Processes may be starting others: look again until there is no new one."""
        deadline = Deadline(SystemClock(), GONE_S)
        while left := [pid for pid in self.processes() if not is_done(pid)]:
            if deadline.is_over():
                said = f"{number.name} has had no effect in {GONE_S:g} s on {left}"
                raise MachineError(f"{self.name}: {said}")
            for pid in left:
                _send(pid, number)
            threading.Event().wait(POLL_S)


def make_namespace(name: str) -> Namespace:
    """Make one whose maker is this process; the name is `own_name` of ``name``.

    Raises:
        MachineError: it cannot be made.
    """
    tool(f"ip netns add {own_name(name)}")
    return Namespace(own_name(name))


def own_name(name: str) -> str:
    """What a namespace of this process is called."""
    return f"paceline-{os.getpid()}-{_start(os.getpid())}-{name}"


def sweep_namespaces() -> list[str]:
    """Remove namespaces whose makers are gone, with all that runs in them; their names.

    Raises:
        MachineError: something of them is still there.
    """
    names = sorted(path.name for path in NAMES.glob("paceline-*"))
    swept = []
    for name in names:
        maker = _OURS.match(name)
        if maker and _start(int(maker[1])) != maker[2]:
            Namespace(name).remove()
            swept.append(name)
    return swept


def tool(command: str, lines: Sequence[str] = ()) -> str:
    """Run `ip` or `tc`, with lines at its stdin; what it said at stdout.

    Raises:
        MachineError: it is not there, failed or took longer than `TOOL_S`; the text has the
            command, the line that failed, and what was said.
    """
    try:
        done = subprocess.run(
            command.split(),
            input="\n".join(lines),
            capture_output=True,
            text=True,
            check=False,
            timeout=TOOL_S,
        )
    except FileNotFoundError as error:
        raise MachineError(f"{command}: not installed; it is in iproute2") from error
    except subprocess.TimeoutExpired as error:
        raise MachineError(f"{command}: not done after {TOOL_S:g} s") from error
    if done.returncode:
        failed = _FAILED_LINE.search(done.stderr)
        line = f" ({lines[int(failed[1]) - 1]})" if failed else ""
        raise MachineError(f"{command}{line}: {' '.join(done.stderr.split())}")
    return done.stdout


def _start(pid: int) -> str:
    """When a process was started, in ticks of the kernel; empty if there is none."""
    return _stat(pid)[19] if _stat(pid) else ""


def _state(pid: int) -> str:
    """One letter; X, dead, if there is none such."""
    return (_stat(pid) or ["X"])[0]


def _stat(pid: int) -> list[str]:
    """Fields of proc(5)'s stat, from the third; none of a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError(f"no network namespace {path}: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _enter(descriptor: int, name: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        reason = os.strerror(ctypes.get_errno())
        raise MachineError(f"setns to {name}: {reason}; it needs root (CAP_SYS_ADMIN)")

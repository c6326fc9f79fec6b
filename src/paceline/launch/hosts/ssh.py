"""Hosts that the launcher starts by ssh: a child of its own for each.

::

    ssh -T -o BatchMode=yes a 'cd FOLDER && ... && exec paceline host --join ADDRESS ...'
        stdin             the run's secret, a line; once it is closed, the host ends
        stdout, stderr    logs/a.ssh.log

The secret is in no command line and no environment. Whoever kills the launcher closes its
ends of the pipes, and so ends its hosts. A host whose ssh has ended is not started again.

Waits: a thread, for children that end; `SshHosts.close`, for all of them, with bounds;
`address_towards`, for what ssh tells of its own settings and for the names of hosts.
"""

import os
import re
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple, final

from paceline.errors import JobFailed, UsageError
from paceline.launch.job import SECRET, JobDir
from paceline.launch.processes import Child, describe_exit, end_all, wait_any
from paceline.timing import Clock, Deadline
from paceline.transport.address import TcpAddress, TcpListening
from paceline.transport.handshake import Secret
from paceline.transport.streams import own_host

ASK_S = 20.0  # of ssh: nothing leaves this machine
JOIN_WITHIN = "60s"  # the launcher is there already
LOOK_EVERY_S = 0.2
LEAVE_S = 3.0  # hosts have been told that the job is over
CLOSED_S = 4.0  # longer than a host gives its processes
GRACE_S = 1.0
CANNOT_CONNECT = 255  # exit code of an ssh that has run nothing

# A machine that does not answer is one that is not there.
_OPTIONS = ("ConnectTimeout=20", "ServerAliveInterval=15", "BatchMode=yes")

# What neither ssh nor a shell nor a file's name takes for more than a name.
_NAME = re.compile(r"(?:\w[\w.+-]*@)?[\w:][\w.:%-]*", re.ASCII)


class SshWish(NamedTuple):
    """Which hosts are to be started, by which ssh, and what is typed there first.

    ``is_plain``: they are to join without TLS. ``ports``: of which their listeners take
    some; 0, 0: any.
    """

    hosts: tuple[str, ...] = ()
    ssh: tuple[str, ...] = ("ssh",)
    remote: str = ""  # a shell's words; empty: `same_place`
    is_plain: bool = False
    ports: tuple[int, int] = (0, 0)


def parse_hosts(text: str) -> tuple[str, ...]:
    """Read names of hosts as users write them: ``a,b,me@c``.

    Raises:
        UsageError: one could be no name, or stands there twice.
    """
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"--hosts: expected names that ssh takes, such as a,b or me@a, got {name!r}"
            )
        if names.count(name) > 1:
            raise UsageError(
                f"--hosts: {name} stands there twice: a machine is one host of a job"
            )
    return names


def same_place() -> str:
    """What brings a shell elsewhere to where this process is, with the same programs."""
    programs = shlex.quote(str(Path(sys.executable).parent))
    return f'cd {shlex.quote(str(Path.cwd()))} && PATH={programs}:"$PATH"'


def ssh_command(wish: SshWish, host: str, join: str) -> list[str]:
    """The command line that makes a machine a host of the job at the address ``join``."""
    words = ["exec", "paceline", "host", "--join", join, "--name", host]
    words += ["--plain"] if wish.is_plain else []
    words += ["--ports", "{}-{}".format(*wish.ports)] if any(wish.ports) else []
    there = shlex.join([*words, "--join-within", JOIN_WITHIN, "--end-with-stdin"])
    return [*_connecting(wish), host, f"{wish.remote or same_place()} && {there}"]


def _connecting(wish: SshWish) -> list[str]:
    return [*wish.ssh, "-T", *(word for option in _OPTIONS for word in ("-o", option))]


def address_towards(wish: SshWish) -> TcpListening:
    """The address of this machine that leads to all hosts, at any of the ports.

    Raises:
        UsageError: a host's name says nothing here, or another address leads to it.
    """
    own = {host: _own_towards(wish, host) for host in wish.hosts}
    if len(set(own.values())) > 1:
        told = ", ".join(f"{address} leads to {host}" for host, address in own.items())
        raise UsageError(
            f"--hosts: this machine has several addresses ({told}): name the one that all "
            "hosts reach, with --listen"
        )
    host = own[wish.hosts[0]]
    return TcpListening(host, host, *wish.ports)


def _own_towards(wish: SshWish, host: str) -> str:
    command = [*wish.ssh, "-G", host]
    try:
        asked = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"--hosts: cannot run {shlex.join(command)}: {error}") from error
    if asked.returncode != 0:
        words = asked.stderr.strip() or f"exit code {asked.returncode}"
        raise UsageError(f"--hosts: {shlex.join(command)}: {words}")
    told = dict(line.split(" ", 1) for line in asked.stdout.splitlines() if " " in line)
    name, port = told.get("hostname", host), told.get("port", "22")
    lead = "name an address of this machine that it reaches, with --listen"
    if told.get("proxyjump") or told.get("proxycommand"):
        raise UsageError(f"--hosts: the way to {host} leads over another machine: {lead}")
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise UsageError(
            f"--hosts: ssh takes {host} for the machine {name}, and that is no name here "
            f"({error.strerror}); a port or a user of its own belongs into ssh's "
            f"configuration, or into --ssh; if ssh does get there, {lead}"
        ) from error
    ip = str(found[0][4][0]).partition("%")[0]
    return own_host(TcpAddress(ip, int(port)))


@final
class SshHosts:
    """The ssh children of a launcher."""

    def __init__(
        self,
        wish: SshWish,
        begins_with: int,
        job: JobDir,
        secret: Secret,
        say: Callable[[str], None],
        clock: Clock,
    ) -> None:
        """Nothing is started; the job begins with so many machines, this one among them."""
        self._wish, self._job, self._secret = wish, job, secret
        self._spare = max(0, 1 + len(wish.hosts) - begins_with)
        self._say, self._clock = say, clock
        self._left: list[Child] = []  # the thread's, until it is joined
        self._ended: list[str] = []  # how; in words
        self._pipes: list[IO[bytes]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="paceline-ssh", daemon=True
        )

    def start(self, join: str) -> None:
        """Have all hosts join at an address.

        Raises:
            UsageError: there is no such program as is to connect.
        """
        for host in self._wish.hosts:
            self._left.append(self._spawn(host, ssh_command(self._wish, host, join)))
        if self._left:
            names = ", ".join(self._wish.hosts)
            logs = self._job.log("<host>.ssh")
            self._say(f"paceline: {names} come by ssh; what is said there is in {logs}")
            self._thread.start()

    def check(self) -> None:
        """The job has not begun yet, and still can.

        Raises:
            JobFailed: more hosts are gone than it can begin without.
        """
        if len(self._ended) > self._spare:
            raise JobFailed(
                f"the job cannot begin with as many machines as it is to: {self._ended[-1]}"
            )

    @property
    def ended(self) -> list[str]:
        """Hosts that are gone, before they were expected to: how, in words."""
        return list(self._ended)

    def expect_end(self) -> None:
        """The job is over: ends of children are no news from now on."""
        self._over.set()

    def close(self) -> None:
        """Wait until all are gone; those that stay are ended, and so are their hosts."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._wait_gone(LEAVE_S)
        for pipe in self._pipes:
            pipe.close()
        self._wait_gone(CLOSED_S)
        end_all(self._left, GRACE_S, self._clock)

    def _spawn(self, host: str, command: Sequence[str]) -> Child:
        log = self._job.log(f"{host}.ssh")
        environment = {name: is_ for name, is_ in os.environ.items() if name != SECRET}
        with log.open("ab") as output:
            log_start = output.tell()
            try:
                process = subprocess.Popen(
                    command,
                    bufsize=0,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise UsageError(
                    f"--hosts: cannot run {command[0]}: {error.strerror}; name the program "
                    "that connects with --ssh"
                ) from error
        assert process.stdin is not None
        self._pipes.append(process.stdin)
        with suppress(BrokenPipeError):  # it has ended already: its log says why
            process.stdin.write(f"{self._secret.text()}\n".encode())
        return Child(host, process, log, log_start)

    def _watch(self) -> None:
        while self._left and not self._over.is_set():
            for child in wait_any(self._left, LOOK_EVERY_S):
                if self._over.is_set():
                    return
                self._left.remove(child)
                self._end(child)

    def _end(self, child: Child) -> None:
        status, words = child.reap(), child.last_lines(5)
        told = f"ssh to {child.role} has ended with {describe_exit(status)}"
        last = f": {words[-1]}" if words else ""
        self._say(f"{told}{last}; a host that is gone is not started again")
        tried = shlex.join([*_connecting(self._wish), child.role, "true"])
        advice = (
            f"see that this works by itself: {tried}"
            if status == CANNOT_CONNECT
            else f"there was typed: {self._wish.remote or same_place()} && exec paceline "
            "host ...; say with --remote what is to stand before exec"
        )
        log = self._job.log(f"{child.role}.ssh")
        self._ended.append("\n".join([f"{told}; {advice}; the end of {log}:", *words]))

    def _wait_gone(self, seconds: float) -> None:
        deadline = Deadline(self._clock, seconds)
        while self._left and not deadline.is_over():
            for child in wait_any(self._left, deadline.remaining_s()):
                child.reap()
                self._left.remove(child)

"""Hosts that the launcher starts by ssh: a child of its own for each.

::

    ssh -T -o BatchMode=yes a 'cd FOLDER && ... && exec paceline host --join ADDRESS ...'

Waits: see `ChildHosts`; `address_towards`, for what ssh tells of its own settings and for
the names of hosts.
"""

import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.launch.engines.children import Bringer, ChildHosts, host_words
from paceline.launch.engines.engine import BroughtJob
from paceline.transport.address import TcpAddress, TcpListening
from paceline.transport.streams import own_host

ASK_S = 20.0  # of ssh: nothing leaves this machine
CANNOT_CONNECT = 255  # exit code of an ssh that has run nothing

# A machine that does not answer is one that is not there.
_OPTIONS = ("ConnectTimeout=20", "ServerAliveInterval=15", "BatchMode=yes")

# What neither ssh nor a shell nor a file's name takes for more than a name.
_NAME = re.compile(r"(?:\w[\w.+-]*@)?[\w:][\w.:%-]*", re.ASCII)


class SshEngine(NamedTuple):
    """Which hosts are to be started, by which ssh, and what is typed there first.

    See `Engine`.
    """

    hosts: tuple[str, ...]
    ssh: tuple[str, ...] = ("ssh",)
    remote: str = ""  # a shell's words; empty: `same_place`

    @property
    def flag(self) -> str:
        """See `Engine`."""
        return "--hosts"

    @property
    def leads_only(self) -> bool:
        """See `Engine`."""
        return False

    def own_address(self, ports: tuple[int, int]) -> TcpListening:
        """See `Engine`."""
        return address_towards(self, ports)

    def num_machines(self, config: JobConfig | None) -> int:  # noqa: ARG002
        """See `Engine`."""
        return len(self.hosts)

    def options(self) -> list[str]:
        """See `Engine`."""
        words = ["--hosts", ",".join(self.hosts)]
        words += ["--ssh", shlex.join(self.ssh)] if self.ssh != ("ssh",) else []
        return words + (["--remote", self.remote] if self.remote else [])

    def bring(self, job: BroughtJob) -> ChildHosts:
        """See `Engine`."""

        def begin(join: str) -> list[Bringer]:
            return [self._bringer(host, join, job.words) for host in self.hosts]

        logs = job.folder.log("<host>.ssh")
        names = ", ".join(self.hosts)
        coming = f"{names} come by ssh; what is said there is in {logs}"
        return ChildHosts(job, len(self.hosts), begin, coming, "--ssh")

    def command(self, host: str, join: str, words: Sequence[str] = ()) -> list[str]:
        """What makes a machine a host of the job at the address ``join``."""
        there = shlex.join(["exec", *host_words(join, words, host)])
        return [*self._connecting(), host, f"{self._before()} && {there}"]

    def _bringer(self, host: str, join: str, words: Sequence[str]) -> Bringer:
        def advice(status: int) -> str:
            if status == CANNOT_CONNECT:
                tried = shlex.join([*self._connecting(), host, "true"])
                return f"see that this works by itself: {tried}"
            return (
                f"there was typed: {self._before()} && exec paceline host ...; say with "
                "--remote what is to stand before exec"
            )

        command = self.command(host, join, words)
        return Bringer(f"{host}.ssh", command, f"ssh to {host}", advice)

    def _before(self) -> str:
        return self.remote or same_place()

    def _connecting(self) -> list[str]:
        return [*self.ssh, "-T", *(word for one in _OPTIONS for word in ("-o", one))]


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


def address_towards(engine: SshEngine, ports: tuple[int, int]) -> TcpListening:
    """The address of this machine that leads to all hosts, at any of the ports.

    Raises:
        UsageError: a host's name says nothing here, or another address leads to it.
    """
    own = {host: _own_towards(engine, host) for host in engine.hosts}
    if len(set(own.values())) > 1:
        told = ", ".join(f"{address} leads to {host}" for host, address in own.items())
        raise UsageError(
            f"--hosts: this machine has several addresses ({told}): name the one that all "
            "hosts reach, with --listen"
        )
    host = own[engine.hosts[0]]
    return TcpListening(host, host, *ports)


def _own_towards(engine: SshEngine, host: str) -> str:
    command = [*engine.ssh, "-G", host]
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

"""Letting other machines into a run: the launcher's side.

Waits: see `HostsDoor`.
"""

import contextlib
import os
import shlex
from collections.abc import Callable
from typing import NamedTuple

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.ids import LAUNCHER
from paceline.launch.hosts.door import HostsDoor, Wanted
from paceline.launch.hosts.placement import Capacity
from paceline.launch.hosts.roster import Host, Roster
from paceline.launch.hosts.sameness import described, versions
from paceline.launch.hosts.ssh import SshHosts, SshWish
from paceline.launch.job import JobDir, UserScript, Wires, way_of
from paceline.machine import machine_name
from paceline.messages.hosts import HostJoined, JoinHost
from paceline.timing import Clock
from paceline.transport.address import TcpAddress, TcpListening
from paceline.transport.handshake import Secret


class Listening(NamedTuple):
    """Where a run lets hosts in, and with how many it begins, this machine among them.

    ``secret`` is the run's, if it is known beforehand; ``ssh`` says who is brought;
    ``is_plain``: without TLS. Other listeners of this machine take any of ``ports``.
    ``capacity``: what it takes at most.
    """

    address: TcpListening
    hosts: int = 1
    secret: Secret | None = None
    ssh: SshWish = SshWish()
    is_plain: bool = False
    ports: tuple[int, int] = (0, 0)
    capacity: Capacity = Capacity()

    @property
    def own(self) -> TcpListening:
        """Where the others of this machine listen."""
        first, last = self.ports
        return self.address._replace(first=first, last=last)

    def options(self) -> list[str]:
        """As the command line says it, to let hosts into the next run."""
        address, ssh, words = self.address, self.ssh, list[str]()
        if ssh.hosts:
            words += ["--hosts", ",".join(ssh.hosts)]
            words += ["--ssh", shlex.join(ssh.ssh)] if ssh.ssh != SshWish().ssh else []
            words += ["--remote", ssh.remote] if ssh.remote else []
        if not ssh.hosts or address.first:
            words += ["--listen", str(TcpAddress(address.bound, address.first))[4:]]
        if address.host != address.bound:
            words += ["--advertise", address.host]
        if self.ports[1]:
            words += ["--ports", "-".join(map(str, self.ports))]
        if self.hosts != 1 + len(ssh.hosts):
            words += ["--await-hosts", str(self.hosts)]
        words += ["--plain"] if self.is_plain else []
        return [*words, "--coordinator-only"] if self.capacity.servers == 0 else words


def require_shared(config: JobConfig) -> None:
    """Let the job's checkpoints lie where all machines reach them.

    Raises:
        UsageError: they lie in the job folder.
    """
    if not config.checkpoints:
        raise UsageError(
            "--listen: the job folder lies on this machine, and servers of others keep "
            "their checkpoints, too: name a place that all machines reach with "
            "--checkpoints, such as a shared folder or an s3:// URL"
        )


def open_door(
    stack: contextlib.ExitStack,
    listening: Listening,
    job: tuple[JobDir, JobConfig, UserScript],
    coordinator: str,
    secret: Secret,
    say: Callable[[str], None],
    clock: Clock,
) -> HostsDoor:
    """Let hosts in until the stack is closed; then they are told that the job is over.

    Raises:
        UsageError: the address cannot be taken, or there is no ssh.
    """
    folder, config, script = job
    way = way_of(is_plain=listening.is_plain)
    wires = Wires(config.run, LAUNCHER, clock, connect_s=2.0, secret=secret, way=way)
    host, name = listening.address.host, machine_name()
    cores = len(os.sched_getaffinity(0))
    own = JoinHost("", name, host, cores, *listening.capacity)
    roster = Roster(own, config.timeout_s, clock.now_s())
    run_script, run_versions = described(script), versions()

    def joined(host: Host) -> HostJoined:
        return HostJoined(
            host=host.id,
            config=config,
            script=run_script,
            coordinator=coordinator,
            versions=run_versions,
        )

    ssh = SshHosts(listening.ssh, listening.hosts, folder, secret, say, clock)
    wanted = Wanted(listening.hosts, config.first_batch_s, ssh.check, config.trainers)
    door = HostsDoor(roster, wanted, folder, joined, wires.to_host(), say, clock)
    try:
        listener = wires.listen_as_launcher(str(listening.address), door)
    except BaseException:
        door.close()
        raise
    stack.callback(ssh.close)
    stack.callback(listener.close)
    stack.callback(door.close)  # before: hosts hear of the end through the listener
    stack.callback(ssh.expect_end)
    address = listener.address.removeprefix("tcp:")
    more = listening.hosts - 1
    waits = f"the job begins when {more} more have joined; " if more else ""
    say(
        f"paceline: {waits}a machine joins by: paceline host --join {address}  (it asks "
        f"for the run's secret, which is in {folder.secret})"
    )
    ssh.start(address)
    return door

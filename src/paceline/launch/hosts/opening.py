"""Letting other machines into a run: the launcher's side.

Waits: see `HostsDoor`.
"""

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.ids import LAUNCHER
from paceline.launch.engines import BroughtJob, Engine, NoEngine
from paceline.launch.guests import GuestHall
from paceline.launch.hosts.door import HostsDoor, Wanted
from paceline.launch.hosts.placement import Capacity
from paceline.launch.hosts.roster import Host, Roster
from paceline.launch.hosts.sameness import described, versions
from paceline.launch.job import JobDir, UserScript, Wires, way_of
from paceline.machine import machine_name, num_cores
from paceline.messages.hosts import HostJoined, JoinHost
from paceline.timing import Clock
from paceline.transport.address import TcpAddress, TcpListening
from paceline.transport.handshake import Secret, Security
from paceline.transport.streams import TcpDoor


class Listening(NamedTuple):
    """Where a run lets hosts in, and with how many it begins, this machine among them.

    ``hosts``: None: with all that the engine brings. ``secret``: the run's, if it is known
    beforehand; ``engine`` says who is brought, and ``their_ports`` of which their listeners
    take some; ``is_plain``: without TLS. Other listeners of this machine take any of
    ``ports``. ``capacity``: what it takes at most; ``trainers_per_host``: what each of the
    others does that does not say. ``guests`` are its trainers, if they are no processes of
    its own.
    """

    address: TcpListening
    hosts: int | None = None
    secret: Secret | None = None
    engine: Engine = NoEngine()
    is_plain: bool = False
    ports: tuple[int, int] = (0, 0)
    capacity: Capacity = Capacity()
    trainers_per_host: int | None = None
    their_ports: tuple[int, int] = (0, 0)  # 0, 0: any
    guests: GuestHall | None = None

    @property
    def own(self) -> TcpListening:
        """Where the others of this machine listen."""
        first, last = self.ports
        return self.address._replace(first=first, last=last)

    def options(self) -> list[str]:
        """As the command line says it, to let hosts into the next run."""
        address, words = self.address, self.engine.options()
        if not words or address.first:
            words += ["--listen", str(TcpAddress(address.bound, address.first))[4:]]
        if address.host != address.bound:
            words += ["--advertise", address.host]
        if self.ports[1]:
            words += ["--ports", "-".join(map(str, self.ports))]
        if self.hosts is not None:
            words += ["--await-hosts", str(self.hosts)]
        words += ["--plain"] if self.is_plain else []
        if self.trainers_per_host is not None:
            words += ["--trainers-per-host", str(self.trainers_per_host)]
        is_chosen = self.capacity.servers == 0 and not self.engine.leads_only
        return [*words, "--coordinator-only"] if is_chosen else words

    def begins_with(self, config: JobConfig | None) -> int:
        """With so many machines; None: there is no job, and they are examined."""
        if self.hosts is not None:
            return self.hosts
        return 1 + self.engine.num_machines(config)

    def invitation(self, address: str) -> str:
        """What is typed on a machine that is to join."""
        return f"paceline host --join {address}{' --plain' if self.is_plain else ''}"

    def their_words(self) -> tuple[str, ...]:
        """Options of ``paceline host`` for all that are brought."""
        words = ["--plain"] if self.is_plain else []
        first, last = self.their_ports
        return (*words, *(["--ports", f"{first}-{last}"] if last else []))


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


def require_door(listening: Listening, config: JobConfig) -> None:
    """What can be told before anything is claimed.

    Raises:
        UsageError: the checkpoints lie in the job folder; the address is not free; or TLS
            is needed, and its library is not installed.
    """
    require_shared(config)
    door = TcpDoor(listening.address, Security(way=way_of(is_plain=listening.is_plain)))
    door.vacate()  # who comes meanwhile finds nobody, and comes again
    door.socket.close()


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
    cores = num_cores()
    own = JoinHost("", name, host, cores, *listening.capacity)
    roster = Roster(own, config.timeout_s, clock.now_s(), listening.trainers_per_host)
    run_script, run_versions = described(script), versions()

    def joined(host: Host) -> HostJoined:
        return HostJoined(
            host=host.id,
            config=config,
            script=run_script,
            coordinator=coordinator,
            versions=run_versions,
        )

    words, begins_with = listening.their_words(), listening.begins_with(config)
    brought = listening.engine.bring(
        BroughtJob(folder, config, secret, words, begins_with, say, clock)
    )
    wanted = Wanted(begins_with, config.first_batch_s, brought.check, config.trainers)
    wanted = wanted._replace(guests=listening.guests)
    door = HostsDoor(roster, wanted, folder, joined, wires.to_host(), say, clock)
    try:
        listener = wires.listen_as_launcher(str(listening.address), door)
    except BaseException:
        door.close()
        raise
    stack.callback(brought.close)
    stack.callback(listener.close)
    stack.callback(door.close)  # before: hosts hear of the end through the listener
    stack.callback(brought.expect_end)
    address = listener.address.removeprefix("tcp:")
    more = begins_with - 1
    waits = f"the job begins when {more} more have joined; " if more else ""
    say(
        f"paceline: {waits}a machine joins by: {listening.invitation(address)}  "
        f"(it asks for the run's secret, which is in {folder.secret})"
    )
    folder.write_door(address)
    brought.start(address)
    return door

"""Options that say which other machines take part, and where they find this one."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, NamedTuple

import typer

from paceline.errors import UsageError
from paceline.launch.engines import (
    Engine,
    NoEngine,
    RayWish,
    SshEngine,
    connect_ray,
    parse_hosts,
    slurm_engine,
)
from paceline.launch.hosts import Capacity, Listening
from paceline.launch.job import (
    OwnWish,
    candidates,
    given_secret,
    is_one_address,
    listening_at,
    own_anywhere,
)
from paceline.transport.address import TcpListening

Listen = Annotated[
    str | None,
    typer.Option(
        help="Let other machines join at this address of this machine: 10.0.0.1:7070."
    ),
]
Network = Annotated[
    str | None,
    typer.Option(
        help="With --listen :7070 or --hosts: at the one in this network or interface."
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        help="With --listen or --hosts: what others reach this machine by.",
        show_default="the address that is listened at",
    ),
]
Ports = Annotated[
    str | None,
    typer.Option(
        help="With --listen or --hosts: listeners take ports of these: 7100-7199.",
        show_default="any",
    ),
]
AwaitHosts = Annotated[
    int | None,
    typer.Option(
        help="With --listen: begin with so many machines, this one too.",
        show_default="1, and all of --hosts",
    ),
]
Hosts = Annotated[
    str | None, typer.Option(help="Have these machines join, by ssh: a,b,me@c.")
]
Ssh = Annotated[
    str | None,
    typer.Option(help="With --hosts: ssh, and its options.", show_default="ssh"),
]
Remote = Annotated[
    str | None,
    typer.Option(
        help='With --hosts: typed there first: "cd x && . venv/bin/activate".',
        show_default="this folder, and this one's programs",
    ),
]
Plain = Annotated[
    bool,
    typer.Option("--plain", help="With --listen: between machines without TLS."),
]
EngineName = Annotated[
    str | None, typer.Option("--engine", help="Who brings machines: ray, slurm.")
]
TrainersPerHost = Annotated[
    int | None,
    typer.Option(
        help="Trainers at most on this machine, and on each that joins and does not say "
        "how many it takes; others, up to --trainers, wait for more machines.",
        show_default="any number, an actor of Ray's 1",
        min=1,
    ),
]
TrainerResources = Annotated[
    str | None,
    typer.Option(
        help="With --engine ray: what a trainer takes: CPU=2,GPU=1.", show_default="CPU=1"
    ),
]
NoUpload = Annotated[
    bool,
    typer.Option(
        "--no-upload", help="With --engine ray: all machines have this folder at its path."
    ),
]

Own = tuple[str | None, str | None, str | None]
Environment = Mapping[str, str]


class RaySaid(NamedTuple):
    """--trainer-resources, --no-upload."""

    resources: str | None = None
    no_upload: bool = False


class MachinesSaid(NamedTuple):
    """What a command line says of other machines; None: nothing.

    ``own``: --network, --advertise, --ports; ``ssh``: --hosts, --ssh, --remote;
    ``engine`` is a name of `ENGINES`.
    """

    listen: str | None
    own: Own
    await_hosts: int | None
    ssh: tuple[str | None, str | None, str | None]
    is_plain: bool
    engine: str | None = None
    trainers_per_host: int | None = None
    ray: RaySaid = RaySaid()

    def listening(self, environment: Mapping[str, str] = os.environ) -> Listening | None:
        """What other machines are let in by; None: this one is alone.

        Raises:
            UsageError: these options do not belong together, or say nothing.
        """
        engine = self._engine(environment)
        is_brought = engine.leads_only or engine.num_machines(None) > 0
        if self.listen is None and not is_brought:
            if self.engine is None:
                self._require_nothing()
            if self.await_hosts is None:
                self._require_unbounded()
                return None
        if self.await_hosts is not None and self.await_hosts < 1:
            raise UsageError(f"--await-hosts: expected at least 1, got {self.await_hosts}")
        address, ports = self._own_address(engine, environment)
        listening = Listening(
            address,
            self.await_hosts,
            given_secret(environment),
            engine,
            self.is_plain,
            ports,
            # What this machine's environment says is said of it alone.
            their_ports=(0, 0) if self.own[2] is None else ports,
        )
        if engine.leads_only:
            return leading(listening)
        most = self.trainers_per_host
        return listening._replace(capacity=Capacity(trainers=most), trainers_per_host=most)

    def _engine(self, environment: Environment) -> Engine:
        by_ssh = ssh_engine(*self.ssh)
        if self.engine != "ray" and self.ray != RaySaid():
            raise UsageError("--trainer-resources and --no-upload belong to --engine ray")
        if self.engine is None:
            return by_ssh
        if self.engine not in ENGINES:
            known = ", ".join(sorted(ENGINES))
            raise UsageError(f"--engine: expected one of {known}, got {self.engine!r}")
        if not isinstance(by_ssh, NoEngine):
            raise UsageError(
                f"--engine {self.engine} and --hosts both say which machines come: leave "
                "one out"
            )
        return ENGINES[self.engine](self, environment)

    def _require_nothing(self) -> None:
        if self.is_plain:
            raise UsageError("--plain belongs to --listen: one machine's links stay on it")
        if self.await_hosts is not None:
            raise UsageError("--await-hosts belongs to --listen, where they join")
        if any(said is not None for said in self.own):
            raise UsageError(
                "--network, --advertise and --ports belong to --listen or --hosts: one "
                "machine's links stay on it"
            )

    def _require_unbounded(self) -> None:
        if self.trainers_per_host is not None:
            raise UsageError(
                "--trainers-per-host is for jobs that others join: --trainers says how "
                "many there are on one machine; where --engine finds only this one, "
                "--await-hosts 1 lets others in"
            )

    def _own_address(
        self, engine: Engine, environment: Mapping[str, str]
    ) -> tuple[TcpListening, tuple[int, int]]:
        """Where the launcher listens, and the ports for the others of this machine."""
        is_named = self.listen is not None and is_one_address(self.listen)
        wish = OwnWish.of(*self.own, environment, is_named=is_named)
        plain = self.is_plain
        if self.listen is not None:
            found = listening_at(self.listen, wish, candidates(), is_plain=plain)
        elif wish.network is not None or wish.advertise is not None:
            found = own_anywhere(engine.flag, wish, candidates(), is_plain=plain)
        else:
            found = engine.own_address(wish.ports)
        return found, wish.ports


def leading(listening: Listening | None) -> Listening:
    """This machine has none of the work, which others have.

    Raises:
        UsageError: there can be no others.
    """
    if listening is None:
        raise UsageError("who only leads belongs to --listen: others have the work")
    return listening._replace(capacity=Capacity(servers=0, trainers=0))


def ray_engine(said: MachinesSaid, _: Environment) -> Engine:
    """A Ray cluster, to which this process is connected.

    Raises:
        UsageError: there is none, or these options say nothing.
    """
    resources, no_upload = said.ray
    wish = RayWish.of(said.trainers_per_host, resources, is_uploaded=not no_upload)
    return connect_ray(wish, lambda line: print(line, file=sys.stderr))


ENGINES: dict[str, Callable[[MachinesSaid, Environment], Engine]] = {
    "ray": ray_engine,
    "slurm": lambda _, environment: slurm_engine(environment),
}


def ssh_engine(hosts: str | None, ssh: str | None, remote: str | None) -> Engine:
    """Which machines are to join by ssh, and how.

    Raises:
        UsageError: these options do not belong together, or say nothing.
    """
    if hosts is None:
        if ssh is not None or remote is not None:
            raise UsageError("--ssh and --remote belong to --hosts, the machines that join")
        return NoEngine()
    try:
        words = tuple(shlex.split(ssh if ssh is not None else "ssh"))
    except ValueError as error:
        raise UsageError(f"--ssh {ssh}: no words of a shell ({error})") from error
    if not words:
        raise UsageError("--ssh: expected a program and its options, got nothing")
    return SshEngine(parse_hosts(hosts), words, remote or "")

"""How many hosts of which kind a job asks of a Ray cluster, and what each takes of it.

::

    servers     one host a machine, as many as there are servers at most; any number each
    trainers    one for every ``trainers_per_host``, as many as the job may ever have

Pure.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from paceline.config import JobConfig
from paceline.errors import UsageError

_NAMED = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}


class RayWish(NamedTuple):
    """What a user says of hosts on Ray; ``resources``: what a trainer takes, by name.

    ``is_uploaded``: the working folder goes to all machines, which do not have it.
    """

    trainers_per_host: int = 1
    resources: tuple[tuple[str, float], ...] = (("CPU", 1.0),)
    is_uploaded: bool = True

    @classmethod
    def of(
        cls, per_host: int | None, resources: str | None, *, is_uploaded: bool
    ) -> "RayWish":
        """As the command line says it.

        Raises:
            UsageError: an amount is none, or too small.
        """
        told = (("CPU", 1.0),) if resources is None else parse_resources(resources)
        return cls(per_host or 1, told, is_uploaded)

    def options(self) -> list[str]:
        """As the command line says it, for the run that goes on."""
        words = ["--engine", "ray"]
        if self.trainers_per_host != 1:
            words += ["--trainers-per-host", str(self.trainers_per_host)]
        if self.resources != (("CPU", 1.0),):
            told = ",".join(f"{name}={_told(amount)}" for name, amount in self.resources)
            words += ["--trainer-resources", told]
        return words if self.is_uploaded else [*words, "--no-upload"]

    @property
    def threads(self) -> int:
        """Of a trainer: as many as it has CPUs."""
        return max(1, int(dict(self.resources).get("CPU", 1.0)))

    def num_trainer_hosts(self, trainers: int) -> int:
        """For so many trainers."""
        return math.ceil(trainers / self.trainers_per_host)


class RayHost(NamedTuple):
    """A host that is asked for; ``bundle``: its place in the servers' group, if it has one.

    ``words``: what it takes, as options of ``paceline host``; ``threads``: of its trainers,
    0: it has none.
    """

    name: str
    words: tuple[str, ...]
    resources: tuple[tuple[str, float], ...]
    bundle: int | None = None
    threads: int = 0

    @property
    def has_servers(self) -> bool:
        """Whether it is one for servers."""
        return self.threads == 0


SERVER_RESOURCES = (("CPU", 1.0),)


def server_host(number: int, bundle: int | None) -> RayHost:
    """A host for any number of servers, and nothing else."""
    words = ("--trainers", "0")
    return RayHost(f"servers-{number}", words, SERVER_RESOURCES, bundle)


def asked_hosts(wish: RayWish, config: JobConfig, machines: int) -> list[RayHost]:
    """All hosts of a job, on a cluster with so many machines that have room for any."""
    servers = [server_host(n, n) for n in range(num_server_hosts(config, machines))]
    each = wish.trainers_per_host
    taken = tuple((name, amount * each) for name, amount in wish.resources)
    words = ("--servers", "0", "--trainers", str(each))
    trainers = [
        RayHost(f"trainers-{n}", words, taken, threads=wish.threads)
        for n in range(wish.num_trainer_hosts(config.max_trainers))
    ]
    return [*servers, *trainers]


def num_server_hosts(config: JobConfig, machines: int) -> int:
    """So many hosts are for servers."""
    return max(1, min(config.servers, machines))


def actor_options(resources: tuple[tuple[str, float], ...]) -> dict[str, object]:
    """Resources as Ray's options of an actor have them."""
    options: dict[str, object] = {"num_cpus": 0}
    own: dict[str, float] = {}
    for name, amount in resources:
        if name in _NAMED:
            options[_NAMED[name]] = amount
        else:
            own[name] = amount
    return {**options, "resources": own} if own else options


def parse_resources(text: str) -> tuple[tuple[str, float], ...]:
    """Read what a trainer takes, as users write it: ``CPU=2,GPU=1``.

    Raises:
        UsageError: it is none of that, or a name stands there twice.
    """
    found: dict[str, float] = {}
    for piece in text.split(","):
        name, _, amount = (word.strip() for word in piece.partition("="))
        try:
            number = float(amount)
        except ValueError:
            number = math.nan
        if not name or name in found or not 0 < number < math.inf:
            raise UsageError(
                "--trainer-resources: expected what a trainer takes of Ray's resources, "
                f"each once, such as CPU=2,GPU=1, got {text!r}"
            )
        found[name] = number
    return tuple(found.items())


def told_resources(resources: Mapping[str, float]) -> str:
    """Resources in words: ``CPU=2, GPU=1``."""
    return ", ".join(f"{name}={amount:g}" for name, amount in resources.items())


def _told(amount: float) -> str:
    """Exactly: bytes of memory have many digits."""
    return str(int(amount)) if amount.is_integer() else str(amount)

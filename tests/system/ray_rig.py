"""Ray for a test: a head and nodes, each a machine of its own.

::

    machine 0       ray start --head, without CPUs; where jobs are started
    machine 1 ...   ray start --address, with as many as a test says

They have one file system; each node was started in a folder of its own, in which nothing
of a job lies.
"""

import json
import os
import signal
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, final

from paceline.testing.machines import Machine, Machines
from paceline.testing.namespaces import MachineError
from tests.system.hosts import HostedJob

STORE = 100 << 20
PORT = 6379
START_S = 120.0  # of one `ray start`, which takes seconds where nothing else runs
OVERLOADED = "timed out during startup"  # Ray's own 30 s, which a busy machine may exceed
TRIES = 4
SETTINGS = {"RAY_AUTH_MODE": "disabled"}
NO_DASHBOARD = ("--include-dashboard", "false")
TIMEOUT_S = 3.0  # of jobs


@final
class RayMachines:
    """A running cluster, at first of its head alone."""

    def __init__(self, folder: Path, machines: Machines) -> None:
        self.folder, self.machines = folder, machines
        self.head = machines[0]
        self.address = f"{self.head.address}:{PORT}"
        self.environment = {**os.environ, **SETTINGS}
        self._unused = list(machines)[1:]
        head = ("--head", "--port", f"{PORT}", "--num-cpus", "0", *NO_DASHBOARD)
        self._start(self.head, head, sys.executable, self.environment)

    def node(self, cpus: int, **own: int) -> Machine:
        """Have one more machine, with so many CPUs and resources of names of its own."""
        return self._join(cpus, own, sys.executable, self.environment)

    def node_without_paceline(self, cpus: int, **own: int) -> Machine:
        """The same, but its Python has all that this one has, and no paceline."""
        libraries = self.folder / "libraries"
        libraries.mkdir()
        for one in Path(sysconfig.get_path("purelib")).iterdir():
            if "paceline" not in one.name:
                (libraries / one.name).symlink_to(one)
        environment = {**self.environment, "PYTHONPATH": str(libraries)}
        python = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self._join(cpus, own, str(Path(sys.base_prefix, "bin", python)), environment)

    def job(self, folder: Path, *options: str, **more: Any) -> HostedJob:
        """Start one at the head, in ``folder/code`` there, which has its script."""
        return HostedJob(
            folder,
            *("--timeout", f"{TIMEOUT_S:g}s", *options),
            ssh=("--engine", "ray"),
            machines=list(self.machines),
            environment={**self.environment, "RAY_ADDRESS": self.address},
            cwd=folder / "code",
            **more,
        )

    def left(self) -> list[str]:
        """What of jobs runs on any machine."""
        of_all = [pid for machine in self.machines for pid in machine.processes()]
        told = [" ".join(words_of(pid)) for pid in of_all]
        return [words for words in told if "paceline." in words or "AgentActor" in words]

    def _join(
        self, cpus: int, own: dict[str, int], python: str, environment: dict[str, str]
    ) -> Machine:
        machine = self._unused.pop(0)
        words = ("--address", self.address, "--num-cpus", f"{cpus}")
        resources = ("--resources", json.dumps(own))
        self._start(machine, (*words, *resources), python, environment)
        return machine

    def _start(
        self,
        machine: Machine,
        words: Sequence[str],
        python: str,
        environment: dict[str, str],
    ) -> None:
        place = self.folder / f"n{machine.index}"
        place.mkdir()
        usual = ("--node-ip-address", machine.address, "--disable-usage-stats")
        more = ("--object-store-memory", f"{STORE}")
        command = [python, "-m", "ray.scripts.scripts", "start", *words, *usual, *more]
        for _ in range(TRIES - 1):
            try:
                machine.run(command, env=environment, cwd=place, timeout_s=START_S)
            except MachineError as error:
                if OVERLOADED not in str(error):
                    raise
                die(machine)
            else:
                return
        machine.run(command, env=environment, cwd=place, timeout_s=START_S)


def hosts_on(machine: Machine) -> list[str]:
    """The names of the hosts of jobs that are on a machine."""
    found = [words_of(pid) for pid in machine.processes()]
    of_hosts = [words for words in found if "--join" in words and "--name" in words]
    return [words[words.index("--name") + 1] for words in of_hosts]


def die(machine: Machine) -> None:
    """Kill all that runs on a machine at one moment; its kernel stays, and says so."""
    machine.hang()
    for pid in machine.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def words_of(pid: int) -> list[str]:
    """The command line of a process; nothing if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().strip("\0").split("\0")
    return []


@contextmanager
def ray_machines(folder: Path, nodes: int) -> Iterator[RayMachines]:
    """A cluster of a head and so many machines that are to become nodes, for a block."""
    with Machines(1 + nodes) as machines:
        yield RayMachines(folder, machines)

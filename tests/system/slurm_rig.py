"""SLURM for a test: a controller and three nodes, each a machine of its own.

::

    machine 0       slurmctld, and where jobs are submitted
    machine 1 ...   slurmd -N n1 ...
    all             one munged, one file system

Its files lie in one folder; no daemon of it is left behind.
"""

import os
import secrets
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, final

from paceline.testing.machines import Machines, why_no_machines
from tests.system.hosts import within

DAEMONS = ("slurmctld", "slurmd", "sbatch", "srun", "munged")
PATH = f"{os.environ['PATH']}:/usr/sbin"
CONF = """
ClusterName=rig
SlurmctldHost={host}({controller})
SlurmUser=root
SlurmctldPort=6817
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=20
SlurmdTimeout=10
{nodes}
PartitionName=usual Nodes=ALL Default=YES MaxTime=30 State=UP PriorityTier=1 GraceTime=20
PartitionName=urgent Nodes=ALL MaxTime=30 State=UP PriorityTier=9 PreemptMode=off
"""
NODE = (
    "NodeName=n{n} NodeHostname={host} NodeAddr={address} Port={port} CPUs=2 State=UNKNOWN"
)

BARE = 'mount -t tmpfs tmpfs "$0"; exec "$@"'


def why_no_slurm() -> str:
    """Why there can be none here, in a sentence; empty if there can."""
    missing = [name for name in DAEMONS if not _found(name)]
    if missing:
        return f"{', '.join(missing)} not installed: tools/install_around.sh does that"
    return why_no_machines()


def _found(name: str) -> bool:
    return any((Path(folder) / name).exists() for folder in PATH.split(":"))


class Job(NamedTuple):
    """How a job stands."""

    state: str
    restarts: int
    reason: str


@final
class Slurm:
    """A running cluster."""

    def __init__(
        self, folder: Path, machines: Machines, bare: Mapping[int, Path] | None = None
    ) -> None:
        """Of ``bare`` machines jobs find a folder to be empty."""
        self.folder, self.machines, self._bare = folder, machines, bare or {}
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(folder / "conf")}

    def begin(self) -> None:
        """Start all daemons, and wait until all nodes are idle."""
        host, folder = socket.gethostname(), self.folder
        nodes = [
            NODE.format(n=one.index, host=host, address=one.address, port=17000 + one.index)
            for one in self.machines
            if one.index
        ]
        conf = CONF.format(
            host=host,
            controller=self.machines[0].address,
            folder=folder,
            nodes="\n".join(nodes),
        )
        (folder / "conf").write_text(conf)
        for name in ("state", *(f"spool.n{n + 1}" for n in range(len(nodes)))):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        places = [
            f"--{one}={folder}/munge.{one}" for one in ("socket", "pid-file", "seed-file")
        ]
        munged = ["munged", "--foreground", "--force", f"--key-file={key}", *places]
        self._daemon(0, "munged", [*munged, f"--log-file={folder}/munged.log"])
        within(10.0, "munge answers", (folder / "munge.socket").exists)
        self._daemon(0, "slurmctld", ["slurmctld", "-D", "-i"])
        for n in range(1, len(self.machines)):
            self._daemon(n, f"slurmd.n{n}", ["slurmd", "-D", "-N", f"n{n}"])
        within(30.0, "all nodes are idle", self._is_up)

    def run(self, *words: str, stdin: str = "", **more: str) -> str:
        """Run a command of SLURM's where jobs are submitted; what it said."""
        with self.machines[0].inside():
            ran = subprocess.run(
                words,
                env={**self.environment, **more},
                input=stdin,
                capture_output=True,
                text=True,
                timeout=30.0,
                check=False,
            )
        assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def submit(self, script: Path, *options: str, **more: str) -> str:
        """Submit a batch script; the id of the job."""
        said = self.run("sbatch", "--parsable", *options, str(script), **more)
        return said.strip().split(";")[0]

    def job(self, job: str) -> Job:
        """How a job stands."""
        said = self.run("scontrol", "show", "job", "--oneliner", job)
        fields = dict(word.split("=", 1) for word in said.split() if "=" in word)
        return Job(fields["JobState"], int(fields["Restarts"]), fields["Reason"])

    def _daemon(self, machine: int, name: str, command: list[str]) -> None:
        log = self.folder / f"{name}.log"
        found = [
            str(next(p for f in PATH.split(":") if (p := Path(f) / command[0]).exists()))
        ]
        apart: list[str] = []
        if name.startswith("slurmd") and machine in self._bare:
            apart = ["unshare", "--mount", "sh", "-c", BARE, str(self._bare[machine])]
        command = [*apart, *found, *command[1:]]
        self.machines[machine].popen(command, log, env=self.environment)

    def _is_up(self) -> bool:
        with self.machines[0].inside():
            asked = subprocess.run(
                ["sinfo", "--noheader", "--Node", "--partition=usual", "--format=%t"],
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
            )
        return asked.stdout.split() == ["idle"] * (len(self.machines) - 1)


@contextmanager
def slurm(
    folder: Path, nodes: int = 3, bare: Mapping[int, Path] | None = None
) -> Iterator[Slurm]:
    """A cluster, while the block lasts."""
    with Machines(1 + nodes) as machines:
        one = Slurm(folder, machines, bare)
        one.begin()
        yield one

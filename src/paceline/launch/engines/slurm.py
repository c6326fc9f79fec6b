"""Hosts by one ``srun`` step: one on each other machine of an allocation of SLURM.

::

    srun --nodes=2 --nodelist=n2,n3 ... python -m paceline.cli.main host --join ADDRESS ...

The run's secret goes to all of them through the step's standard input. SLURM's names lead
nowhere: where a machine is reached, it says itself at its join.

Pure, but for the children of `ChildHosts`.
"""

import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.launch.engines.children import Bringer, ChildHosts, host_words
from paceline.launch.engines.engine import BroughtJob
from paceline.launch.engines.slurm_text import StepLog, expand_hosts
from paceline.launch.job import Candidate, Candidates, candidates
from paceline.machine import SLURM_NAME
from paceline.transport.address import TcpListening, is_loopback

JOB: Final = "SLURM_JOB_ID"
NODES: Final = "SLURM_JOB_NODELIST"
LAUNCHED_FROM: Final = "SLURM_LAUNCH_NODE_IPADDR"

# One machine lost, or one host that ends, is no end of the others. A host has all cores and
# all memory that the allocation has on its machine, whatever the launcher's own step took.
_STEP = (
    *("--ntasks-per-node=1", "--no-kill", "--kill-on-bad-exit=0", "--wait=0"),
    *("--export=ALL", "--input=all", "--overlap", "--cpu-bind=none", "--mpi=none"),
    *("--label", "--job-name=paceline-hosts"),
)
# SLURM tells all machines of a job at once, the launcher's too: it takes a last checkpoint
# then, and who has servers stays for that. More than trainers and a checkpoint may take.
_STAY = ("--stay", "90s")


class SlurmEngine(NamedTuple):
    """The other machines of an allocation; see `Engine`.

    Attributes:
        job: the allocation.
        others: the names that SLURM has for them; none: it has one machine.
        used: the address of this machine that SLURM itself has used, if it is known.
    """

    job: str
    others: tuple[str, ...]
    used: str = ""

    @property
    def flag(self) -> str:
        """See `Engine`."""
        return "--engine slurm"

    @property
    def leads_only(self) -> bool:
        """See `Engine`."""
        return False

    def own_address(self, ports: tuple[int, int]) -> TcpListening:
        """See `Engine`."""
        return address_in_allocation(self.used, candidates(), ports)

    def num_machines(self, config: JobConfig | None) -> int:  # noqa: ARG002
        """See `Engine`."""
        return len(self.others)

    def options(self) -> list[str]:
        """See `Engine`."""
        return ["--engine", "slurm"]

    def bring(self, job: BroughtJob) -> ChildHosts:
        """See `Engine`."""
        count = len(self.others)
        log = job.folder.log("srun")

        def begin(join: str) -> list[Bringer]:
            command = self.command(join, job.words)
            told = f"srun for {', '.join(self.others)}"
            bringer = Bringer("srun", command, told, self._advice, count, StepLog().read)
            return [bringer] if self.others else []

        come = "comes" if count == 1 else "come"
        names = ", ".join(self.others)
        coming = f"{names} of job {self.job} {come} by srun; what is said there is in {log}"
        return ChildHosts(job, count, begin, coming, "--engine slurm")

    def command(self, join: str, words: tuple[str, ...] = ()) -> list[str]:
        """What makes the other machines hosts of the job at the address ``join``."""
        count = len(self.others)
        where = [f"--nodes={count}", f"--ntasks={count}"]
        where.append(f"--nodelist={','.join(self.others)}")
        # The same program as this one, wherever a PATH may lead there.
        host = [sys.executable, "-P", "-m", "paceline.cli.main"]
        return ["srun", *where, *_STEP, *host, *host_words(join, (*words, *_STAY))[1:]]

    def _advice(self, status: int) -> str:
        del status
        return f"scontrol show job {self.job} and sinfo tell how its machines are"


def slurm_engine(environment: Mapping[str, str]) -> SlurmEngine:
    """The allocation that this process runs in.

    Raises:
        UsageError: it runs in none, or on no machine of it.
    """
    job, nodes = environment.get(JOB), environment.get(NODES)
    if not job or not nodes:
        raise UsageError(
            f"--engine slurm: expected to run in a job of SLURM, and {JOB} and {NODES} are "
            "not set here: submit what `paceline script slurm` writes, by sbatch"
        )
    names, here = expand_hosts(nodes), environment.get(SLURM_NAME, "")
    if here not in names:
        raise UsageError(
            f"--engine slurm: this machine ({SLURM_NAME}={here}) is none of job {job}, "
            f"which has {nodes}: begin it there, by sbatch or with srun --nodes=1 "
            "--ntasks=1 --overlap in front"
        )
    others = tuple(name for name in names if name != here)
    return SlurmEngine(job, others, environment.get(LAUNCHED_FROM, ""))


def address_in_allocation(
    used: str, here: Candidates, ports: tuple[int, int]
) -> TcpListening:
    """The address of this machine at which a launcher listens, if there is but one.

    That which SLURM itself has ``used``, or the only one; of both families, IPv4.

    Raises:
        UsageError: there are several, or none.
    """
    far = [one for one in here if not is_loopback(one.host)]
    by_slurm = [one for one in far if one.host == used]
    found = by_slurm or [one for one in far if ":" not in one.host] or far
    if len(found) == 1:
        return TcpListening(found[0].host, found[0].host, *ports)
    raise UsageError(
        "--engine slurm: expected one address of this machine that others may reach, found "
        f"{_told(found)}: say with --network in which network all machines of the job are, "
        "such as 10.0.0.0/8, or name the address with --listen"
    )


def _told(here: list[Candidate]) -> str:
    return ", ".join(f"{one.interface} {one.host}" for one in here) or "none but loopback"

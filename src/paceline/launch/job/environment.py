"""The PACELINE_* variables: how a process learns which job it belongs to, and as what.

====================  ==============================================================
PACELINE_RUN          id of the run; a connection of another run is refused
PACELINE_ROLE         role id of the process, e.g. ``trainer-1``
PACELINE_JOB_DIR      the job folder
PACELINE_COORDINATOR  address of the coordinator
PACELINE_ADDRESS      where the process listens; a trainer may find a place by itself
PACELINE_SECRET       secret of the run, where roles listen at TCP ports
PACELINE_SECRET_FILE  a file that holds it, for whoever starts a job or a host by hand
PACELINE_HOST         what its machine is called, in a job of several
PACELINE_PLAIN        1: between machines without TLS
PACELINE_SOCKETS      private folder of the job's Unix sockets
PACELINE_LAUNCHER     process id of the launcher; without it the job has ended
PACELINE_RANKS        processes of the trainer, where it has several
PACELINE_RANK         which of them this one is; 0 leads
====================  ==============================================================

A user sets ``PACELINE_JOB_DIR`` at most, where an embedded job goes, ``PACELINE_QUIET``, so
that it says only what goes wrong, ``PACELINE_SHARED_MEMORY``
(`paceline.transport.shared_memory`), and what `paceline.launch.job.own` reads; under
torchrun what `paceline.launch.torchrun.wishes` reads, too.

Pure, but for a secret that lies in a file: the environment is an argument.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from paceline.errors import UsageError
from paceline.ids import role_kind
from paceline.machine import HOST
from paceline.transport.handshake import Secret

RUN = "PACELINE_RUN"
ROLE = "PACELINE_ROLE"
JOB_DIR = "PACELINE_JOB_DIR"
QUIET = "PACELINE_QUIET"
COORDINATOR = "PACELINE_COORDINATOR"
ADDRESS = "PACELINE_ADDRESS"
SECRET = "PACELINE_SECRET"
SECRET_FILE = "PACELINE_SECRET_FILE"
PLAIN = "PACELINE_PLAIN"
SOCKETS = "PACELINE_SOCKETS"
LAUNCHER = "PACELINE_LAUNCHER"
GROUP_SIZE = "PACELINE_RANKS"
GROUP_INDEX = "PACELINE_RANK"
THREADS = "OMP_NUM_THREADS"  # torch takes its intra-op threads from it

# glibc's malloc keeps what is freed, up to this many bytes, and maps only larger pieces by
# themselves: each step frees what the next one asks for, and the kernel's fresh pages can
# cost more than the step.
KEPT_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
}


class Place(NamedTuple):
    """Where a process stands in a job."""

    run: str
    role: str
    job_dir: Path
    coordinator: str
    sockets: Path
    launcher: int  # its process id
    secret: Secret | None = None  # with TCP only; does not print
    address: str = ""  # where it listens itself
    size: int = 1  # of a trainer: its processes
    host: str = ""  # its machine, in a job of several
    is_plain: bool = False  # between machines without TLS

    def variables(self) -> dict[str, str]:
        """The environment that says so."""
        variables = {
            RUN: self.run,
            ROLE: self.role,
            JOB_DIR: str(self.job_dir),
            COORDINATOR: self.coordinator,
            SOCKETS: str(self.sockets),
            LAUNCHER: str(self.launcher),
            GROUP_SIZE: str(self.size),
        }
        if self.secret is not None:
            variables[SECRET] = self.secret.text()
        # Empty where they say nothing: the launcher may have been started within a job.
        variables[ADDRESS], variables[HOST] = self.address, self.host
        variables[PLAIN] = "1" if self.is_plain else ""
        return variables


def read_place(environ: Mapping[str, str]) -> Place | None:
    """The place that an environment names; None when it names no job.

    Raises:
        UsageError: the environment names a job by halves, or what it says is none.
    """
    if ROLE not in environ:
        return None
    is_tcp = environ.get(COORDINATOR, "").startswith("tcp:")
    needed = [RUN, JOB_DIR, COORDINATOR, SOCKETS, LAUNCHER]
    needed += [SECRET] if is_tcp else []
    needed += [ADDRESS] if role_kind(environ[ROLE]) == "server" else []
    missing = [name for name in needed if not environ.get(name)]
    if missing:
        raise UsageError(
            f"{ROLE}={environ[ROLE]!r} says that this process belongs to a job, but "
            f"{', '.join(missing)} is not set; start it with `paceline run` or unset "
            f"{ROLE}"
        )
    if not environ[LAUNCHER].isdecimal():
        raise UsageError(
            f"{LAUNCHER}={environ[LAUNCHER]!r} is no process id; start the script with "
            "`paceline run`, which sets it"
        )
    size = environ.get(GROUP_SIZE, "1")
    if not size.isdecimal() or int(size) < 1:
        raise UsageError(
            f"{GROUP_SIZE}={size!r} is no number of processes; start the script with "
            "`paceline run --ranks-per-trainer`, which sets it"
        )
    return Place(
        run=environ[RUN],
        role=environ[ROLE],
        job_dir=Path(environ[JOB_DIR]),
        coordinator=environ[COORDINATOR],
        sockets=Path(environ[SOCKETS]),
        launcher=int(environ[LAUNCHER]),
        secret=Secret.parse(environ[SECRET], SECRET) if is_tcp else None,
        address=environ.get(ADDRESS, ""),
        size=int(size),
        host=environ.get(HOST, ""),
        is_plain=environ.get(PLAIN) == "1",
    )


def given_secret(environ: Mapping[str, str]) -> Secret | None:
    """The secret that an environment names for a run that begins; None: it names none.

    Raises:
        UsageError: the file cannot be read, or what it says is no secret.
    """
    if path := environ.get(SECRET_FILE):
        try:
            text = Path(path).read_text()
        except OSError as error:
            why = error.strerror
            raise UsageError(f"{SECRET_FILE}: cannot read {path}: {why}") from error
        except UnicodeDecodeError as error:
            why = "expected letters and digits, as of `openssl rand -hex 32`"
            raise UsageError(f"{SECRET_FILE}: {path} is no text: {why}") from error
        if not text.strip():
            raise UsageError(
                f"{SECRET_FILE}: {path} is empty: expected the run's secret; make one by "
                f"`openssl rand -hex 32 > {path}`, and give all machines the same"
            )
        return Secret.parse(text, path)
    text = environ.get(SECRET, "")
    return Secret.parse(text, SECRET) if text else None


def read_quiet(environ: Mapping[str, str]) -> bool:
    """Whether an embedded job is to say only what goes wrong.

    Raises:
        UsageError: the variable is neither 1 nor 0.
    """
    chosen = environ.get(QUIET, "0")
    if chosen not in {"0", "1"}:
        raise UsageError(f"{QUIET}: expected 1 or 0, got {chosen!r}")
    return chosen == "1"


def trainer_threads(cores: int, trainers: int) -> int:
    """Intra-op threads of one trainer, when all trainers share the cores."""
    return max(1, cores // trainers)

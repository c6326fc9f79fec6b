"""Which job a command is for, by its folder or by its launcher's address; and new names.

Waits: for the secret, if somebody is to type it.
"""

import getpass
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from paceline.errors import UsageError
from paceline.launch.job.addresses import tcp_address
from paceline.launch.job.environment import given_secret
from paceline.launch.job.files import require_utf8, writing
from paceline.launch.job.folder import RUNS, JobDir
from paceline.launch.job.joining import JobDoor
from paceline.transport.handshake import Secret


def named_job(
    folder: Path | None,
    join: str | None,
    find: Callable[[Path], JobDir],
    *,
    is_plain: bool = False,
) -> JobDir | JobDoor:
    """The job that a command is for; if none is named, what ``find`` finds in runs/.

    Raises:
        UsageError: both are named, there is no such job, or no secret.
    """
    if join is None:
        return find(RUNS) if folder is None else JobDir(folder)
    if folder is not None:
        raise UsageError(f"name the job by its folder, {folder}, or by --join, not by both")
    return JobDoor(tcp_address("--join", join), ask_secret(os.environ), is_plain)


def fresh_job_dir(root: Path, script: str, now_s: float) -> Path:
    """Make ``<root>/<YYYYmmdd-HHMMSS>-<script>`` (``-2``, ``-3`` ... when it is taken).

    ``now_s`` are seconds since 1970.

    Raises:
        UsageError: the folder cannot be made, or a name is no UTF-8.
        StoreFull: there is no space for it.
    """
    require_utf8("the script", script)
    moment = datetime.fromtimestamp(now_s, tz=UTC).astimezone()
    name = f"{moment:%Y%m%d-%H%M%S}-{Path(script).stem or 'job'}"
    number = 1
    while True:
        path = root / (name if number == 1 else f"{name}-{number}")
        try:
            with writing(path, UsageError):
                path.mkdir(parents=True)
        except UsageError as error:
            if not isinstance(error.__cause__, FileExistsError):
                raise
            number += 1
        else:
            return path


def notebook_name(environ: Mapping[str, str], names: Mapping[str, object]) -> str:
    """What a job is called that a notebook begins: as its file, if somebody tells that.

    Jupyter does by ``environ``, VS Code by ``names``, which the cells have.
    """
    file = names.get("__vsc_ipynb_file__") or environ.get("JPY_SESSION_NAME") or ""
    return re.sub(r"[^\w.-]+", "-", Path(str(file)).stem).strip("-.") or "notebook"


def shown_name(job: JobDir | JobDoor) -> str:
    """What a command calls a job."""
    return job.name if isinstance(job, JobDoor) else str(job.path)


def pace_command(job: JobDir | JobDoor, pace: str) -> str:
    """The command that gives a running job this pace, as a user types it in any folder."""
    where = [shown_name(job)]
    if isinstance(job, JobDoor):
        where = ["--join", *where, *(["--plain"] if job.is_plain else [])]
    return shlex.join(["paceline", "pace", *where, pace])


def ask_secret(environ: Mapping[str, str]) -> Secret:
    """The secret of a run: of an environment, else of standard input.

    Raises:
        UsageError: what there is, is none.
    """
    if (given := given_secret(environ)) is not None:
        return given
    if sys.stdin.isatty():
        return Secret.parse(getpass.getpass("the run's secret: "), "standard input")
    sys.stderr.write("paceline: reads the run's secret from standard input\n")
    return piped_secret()


def piped_secret() -> Secret:
    """The secret of a run: the first line of standard input.

    Raises:
        UsageError: it is none.
    """
    return Secret.parse(sys.stdin.readline(), "standard input")

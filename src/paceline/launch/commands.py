"""What each role of a job on this machine runs, and in which environment.

Pure: the environment is an argument.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paceline.failpoints import ARM_VARIABLE, FOLDER_VARIABLE
from paceline.ids import role_kind
from paceline.launch.environment import THREADS, Place


class Command(NamedTuple):
    """What a process runs: the user's script with its arguments, or else its role."""

    script: tuple[str, ...]
    environment: dict[str, str]
    is_module: bool = False


class UserScript(NamedTuple):
    """The user's loop: a script and its own arguments.

    Args:
        path: of its file; of a module, its name.
        arguments: its own.
        is_module: it is found as ``python -m`` would find it.
    """

    path: str
    arguments: Sequence[str]
    is_module: bool = False

    @property
    def named(self) -> str:
        """As ``paceline run`` is told of it: ``train.py``, ``-m package.train``."""
        return f"-m {self.path}" if self.is_module else self.path


def role_command(
    place: Place, script: UserScript, base: Mapping[str, str], threads: int
) -> Command:
    """What the process of ``place`` runs.

    Args:
        place: where it stands; its role decides.
        script: what trainers run.
        base: the launcher's own environment.
        threads: intra-op threads of a trainer, unless ``base`` says it itself.
    """
    environment = {**base, **place.variables()}
    if role_kind(place.role) != "trainer":
        environment[THREADS] = "1"
        return Command((), environment)
    environment.setdefault(THREADS, str(threads))
    return Command((script.path, *script.arguments), environment, script.is_module)


def with_failpoints(base: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The environment of a job's processes: armed failpoints share one budget."""
    environment = dict(base)
    if environment.get(ARM_VARIABLE):
        environment.setdefault(FOLDER_VARIABLE, str(folder))
    return environment


def resume_command(job_dir: Path, script: UserScript) -> str:
    """What a user types to go on with a job."""
    command = ["paceline", "run", "--resume", "--job-dir", str(job_dir)]
    named = script.named
    words = named.split(" ", 1) if named.startswith("-m ") else [named]
    return shlex.join([*command, *words, *script.arguments])

"""What each role of a job on this machine runs, and in which environment.

Pure: the environment is an argument.

Whether there is a script of a name, before anything is started for it.

A module is looked for as ``python -m`` would, from the working folder on, but nothing of it
is imported: packages on the way are the user's code, which trainers run.

Waits: for the file system only.
"""

import pkgutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paceline.errors import UsageError
from paceline.failpoints import ARM_VARIABLE, FOLDER_VARIABLE
from paceline.ids import role_kind
from paceline.launch.job.environment import THREADS, Place


class Command(NamedTuple):
    """What a process runs: the user's script with its arguments, or else its role."""

    script: tuple[str, ...]
    environment: dict[str, str]
    is_module: bool = False


class UserScript(NamedTuple):
    """The user's loop: a script, or a module as of ``python -m``, and its own arguments."""

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
    """What the process of ``place`` runs, by its role.

    ``threads`` are a trainer's for one operation, unless ``base``, the launcher's own
    environment, says it itself.
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


def file_of(script: UserScript) -> str:
    """A path with the script's name: a module's is its last word, in the working folder."""
    return script.path.rpartition(".")[2] if script.is_module else script.path


def require_script(script: UserScript, here: Path) -> None:
    """Let there be something to run, as seen from the working folder ``here``.

    Raises:
        UsageError: there is no such file or module, and where it was looked for.
    """
    name = script.path
    if not script.is_module:
        if not Path(name).is_file():
            raise UsageError(f"there is no script {name!r}")
        return
    if name.endswith(".py") and Path(name).is_file():
        raise UsageError(
            f"-m takes the name of a module, got the file {name}: leave out -m"
        )
    if not all(name.split(".")):
        raise UsageError(f"-m takes the name of a module like package.train, got {name!r}")
    folders: Sequence[str] = [str(here), *sys.path]
    for end in [at for at, letter in enumerate(name) if letter == "."] + [len(name)]:
        is_first = "." not in name[:end]
        found = _find(name[:end], folders)
        if found is None and is_first:
            found = _find_elsewhere(name[:end])
        if found is None:
            raise UsageError(
                f"there is no module {name[:end]!r} in {here} or among the installed"
            )
        folders = found
    if folders and _find(f"{name}.__main__", folders) is None:
        raise UsageError(
            f"{name} is a package, and has no module __main__: name one of its modules"
        )


def _find(name: str, folders: Sequence[str]) -> Sequence[str] | None:
    """Where modules of a module lie, if it is a package; None if there is none of it."""
    portions: list[str] = []
    for folder in folders:
        finder = pkgutil.get_importer(folder)
        found = None if finder is None else finder.find_spec(name)
        if found is not None and found.loader is not None:
            return found.submodule_search_locations or []
        if found is not None:  # a part of a package without an __init__
            portions += found.submodule_search_locations or []
    return portions or None


def _find_elsewhere(name: str) -> Sequence[str] | None:
    """What no folder holds: a module of the interpreter's own, an editable installation."""
    for finder in sys.meta_path:
        found = finder.find_spec(name, None)
        if found is not None:
            return list(found.submodule_search_locations or [])
    return None

"""Whether there is a script of a name, before anything is started for it.

A module is looked for as ``python -m`` would, from the working folder on, but nothing of it
is imported: packages on the way are the user's code, which trainers run.

Waits: for the file system only.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

from paceline.errors import UsageError
from paceline.launch.commands import UserScript


def file_of(script: UserScript) -> str:
    """A path with the script's name: a module's is its last word, in the working folder."""
    return script.path.rpartition(".")[2] if script.is_module else script.path


def require_script(script: UserScript, here: Path) -> None:
    """Let there be something to run.

    Args:
        script: as the user names it.
        here: the working folder.

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
    folders: Sequence[str] | None = None
    for end in [at for at, letter in enumerate(name) if letter == "."] + [len(name)]:
        found = _find(name[:end], folders, here)
        if found is None:
            raise UsageError(
                f"there is no module {name[:end]!r} in {here} or among the installed"
            )
        folders = list(found.submodule_search_locations or [])
    if folders and _find(f"{name}.__main__", folders, here) is None:
        raise UsageError(
            f"{name} is a package, and has no module __main__: name one of its modules"
        )


def _find(name: str, folders: Sequence[str] | None, here: Path) -> ModuleSpec | None:
    """A module below these folders; None: anywhere that ``python -m`` looks."""
    path = [str(here), *sys.path] if folders is None else folders
    for finder in sys.meta_path:
        for place in (path, None) if folders is None else (path,):
            found = finder.find_spec(name, place)
            if found is not None:
                return found
    return None

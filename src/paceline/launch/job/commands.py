"""What the roles of a job on this machine run, and the command that goes on with a run.

A module is looked for as ``python -m`` would, from the working folder on, but nothing of it
is imported: packages on the way are the user's code, which trainers run.

A plugin is a module of whoever starts the job, named on the command line and imported by
servers and trainers when they start, before anything is shared. No code travels.

Waits: for the file system, and for imports.
"""

import importlib
import importlib.util
import pkgutil
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paceline.errors import UsageError, describe_error
from paceline.failpoints import ARM_VARIABLE, FOLDER_VARIABLE
from paceline.ids import role_kind
from paceline.launch.job.environment import THREADS, Place
from paceline.launch.job.files import require_utf8

_CALL = re.compile(r"(\w+)\((\.{3})?\)")  # of a function, without arguments or with some


class Command(NamedTuple):
    """What a process runs: the user's script with its arguments, or else its role."""

    script: tuple[str, ...]
    environment: dict[str, str]
    is_module: bool = False


class UserScript(NamedTuple):
    """The user's loop: a script, or a module as of ``python -m``, and its own arguments.

    Or a function of the user's by its name, in ``content``, which the module calls; with
    arguments of its own (`has_arguments`), which no text tells.
    """

    path: str
    arguments: Sequence[str]
    is_module: bool = False
    function: str = ""
    content: bytes = b""
    has_arguments: bool = False

    @property
    def named(self) -> str:
        """As a run is told of it: ``train.py``, ``-m package.train``, ``train(...)``."""
        if self.function:
            return self.function + ("(...)" if self.has_arguments else "()")
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


def resume_command(
    job_dir: Path,
    script: str,
    arguments: Sequence[str] = (),
    plugins: Sequence[str] = (),
    others: Sequence[str] = (),
) -> str:
    """The command that goes on with a run, as a user types it.

    Options that are left out are as they were, but for plugins and ``others``, those that
    let machines in, which each run names anew. A function is run from Python.
    """
    if called := _CALL.fullmatch(script):
        name = "function" if called[1] == "lambda" else called[1]
        given = ", args=(...)" if called[2] else ""  # a hole: only who calls has them
        beside = f", plugin={list(plugins)}" if plugins else ""
        return f"paceline.run({name}{given}, job_dir={str(job_dir)!r}, resume=True{beside})"
    named = [word for plugin in plugins for word in ("--plugin", plugin)]
    ran = script.split(" ", 1) if script.startswith("-m ") else [script]
    options = ["--resume", "--job-dir", str(job_dir), *others, *named]
    words = [*options, *ran, *arguments]
    return shlex.join(["paceline", "run", *words])


def file_of(script: UserScript) -> str:
    """A path with the script's name: a module's is its last word, in the working folder."""
    if script.function:
        return script.function
    return script.path.rpartition(".")[2] if script.is_module else script.path


def require_script(script: UserScript, here: Path) -> None:
    """Let there be something to run, as seen from the working folder ``here``.

    Raises:
        UsageError: there is no such file or module, and where it was looked for.
    """
    name = script.path
    if script.function:
        return
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


_SUFFIX = ".py"


def resolved(plugins: Iterable[str], script: str) -> tuple[str, ...]:
    """Plugins as any process finds them: files by absolute path, modules by name.

    A module that lies beside the script is named by its file.

    Raises:
        UsageError: there is no such file, or its name is no UTF-8.
    """
    found = []
    for plugin in plugins:
        beside = Path(script).absolute().parent / f"{plugin}{_SUFFIX}"
        path = Path(plugin).absolute() if plugin.endswith(_SUFFIX) else beside
        if path.is_file():
            found.append(str(path))
        elif plugin.endswith(_SUFFIX):
            raise UsageError(f"--plugin: there is no file {path}")
        else:
            found.append(plugin)
        require_utf8("--plugin", found[-1])
    return tuple(found)


def require_named(last: Iterable[str], chosen: Iterable[str]) -> None:
    """Let a job that goes on import nothing that this command line does not name.

    A job folder may be somebody else's, and a plugin is code. One that has moved is named
    by its new path. Both are as `resolved` has them.

    Raises:
        UsageError: the folder names another one; with the options to add.
    """
    names = {_name_of(plugin) for plugin in chosen}
    unnamed = [plugin for plugin in last if _name_of(plugin) not in names]
    if unnamed:
        options = " ".join(f"--plugin {shlex.quote(plugin)}" for plugin in unnamed)
        raise UsageError(
            f"--resume: the job was run with plugins that this command does not name, and "
            f"servers and trainers would run their code; if you trust it, add {options}"
        )


def load_plugins(plugins: Iterable[str]) -> None:
    """Import plugins, each once in a process.

    Raises:
        UsageError: one cannot be imported, and why.
    """
    for plugin in plugins:
        try:
            _load(plugin)
        except Exception as error:  # a user's module may raise any
            raise UsageError(f"--plugin {plugin}: {describe_error(error)}") from error


def _name_of(plugin: str) -> str:
    """What it is imported as."""
    return Path(plugin).stem if plugin.endswith(_SUFFIX) else plugin


def _load(plugin: str) -> None:
    if not plugin.endswith(_SUFFIX):
        importlib.import_module(plugin)
        return
    name = _name_of(plugin)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == plugin:
        return
    spec = importlib.util.spec_from_file_location(name, plugin)
    assert spec is not None, "there is a loader for every .py file"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that the script's own import of it finds this one
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise

"""The user's own modules in every process that needs what they register.

A plugin is code of whoever starts the job, named on the command line and imported by
servers and trainers when they start. No code travels.

Waits: for imports. Any thread, before anything is shared.
"""

import importlib
import importlib.util
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from paceline.errors import UsageError, describe_error
from paceline.launch.job.files import require_utf8

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

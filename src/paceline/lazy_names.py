"""Names of a package that load when they are first asked for (PEP 562).

Importing the package imports none of them, so that whoever needs one is not given what the
others need.
"""

import importlib
import sys
from collections.abc import Callable, Mapping


def loader(package: str, origins: Mapping[str, str]) -> Callable[[str], object]:
    """A package's ``__getattr__``: imports a name from where it is defined, and keeps it.

    Args:
        package: its ``__name__``.
        origins: {name: the module that defines it}; a module's own name offers the module.
    """

    def load(name: str) -> object:
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(origins[name])
        is_module = module.__name__ == f"{package}.{name}"
        value: object = module if is_module else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return load

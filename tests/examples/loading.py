"""Modules of an example, which import each other by plain names as a script's do."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "examples"


def load(example: str, *names: str) -> list[ModuleType]:
    """Import modules of an example; those of another one give way where names agree."""
    folder = FOLDER / example
    own = {path.stem for path in folder.glob("*.py")}
    for name in own & set(sys.modules):
        if Path(getattr(sys.modules[name], "__file__", None) or "").parent != folder:
            del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        sys.path.remove(str(folder))

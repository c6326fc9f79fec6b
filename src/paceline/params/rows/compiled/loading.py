"""Loads the compiled loops before anybody waits for them with a bound.

Waits: for the file system; where nothing is kept of them, a minute for the compiler.
"""

import importlib
from pathlib import Path

_LOOPS = ("distinct_kernels", "kernels", "step_kernels")


def load_loops() -> Path | None:
    """Read all loops from where they are kept, or compile them; where they are kept now.

    To be called before a server is asked for rows: in an embedded job it would compile them
    while it answers, and be taken for dead.
    """
    for name in _LOOPS:
        module = importlib.import_module(f"{__package__}.{name}")
    kept: str | None = module.adam.stats.cache_path
    return None if kept is None else Path(kept)

"""``paceline warm``: the row kernels compiled, before a job waits for it."""

from paceline.errors import StoreError
from paceline.params.rows import load_loops


def warm() -> None:
    """Compile the row kernels, if that was not done yet, for all jobs that come.

    Else the first job with rows waits for it.
    """
    kept = load_loops()
    if kept is None:
        raise StoreError(
            "the row kernels are kept nowhere, so every process compiles them: set "
            "NUMBA_CACHE_DIR to a folder that only you can write to"
        )
    print(f"the row kernels are compiled, and kept in {kept}")

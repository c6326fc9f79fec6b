"""The small files of a job folder: whole or not there, and what a full disk does to them.

Waits: for the disk.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paceline.errors import PacelineError, StoreError, StoreFull, UsageError, why_full

PROBE_BYTES = 256 << 10  # a journal's first pages, logs, and the small files


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def write_whole(path: Path, value: object) -> None:
    """Write so that a reader sees the old file or the new one, never half of one.

    Raises:
        OSError: the disk refuses; the old file stays.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        partial.unlink(missing_ok=True)
        with partial.open("xb") as file:  # never through somebody's link
            file.write(_pretty(value))
        partial.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def write_new(path: Path, value: object) -> None:
    """Make a file, whole or not at all.

    Raises:
        FileExistsError: there is one.
        OSError: the disk refuses.
    """
    with path.open("xb") as file:
        try:
            file.write(_pretty(value))
            file.flush()
        except OSError:
            path.unlink()
            raise


@contextlib.contextmanager
def writing(folder: Path, otherwise: type[PacelineError] = StoreError) -> Iterator[None]:
    """What the block writes lies in a job folder: tell why that cannot be.

    Raises:
        StoreFull: its disk takes nothing more.
        PacelineError: of the kind ``otherwise``, for any other trouble of the disk.
    """
    try:
        yield
    except OSError as error:
        if (why := why_full(error)) is not None:
            raise StoreFull(
                f"cannot write in the job folder {folder}: {why}; free space there, or "
                "name another folder with --job-dir",
                str(folder),
                why,
            ) from error
        if otherwise is UsageError:
            raise UsageError(f"cannot make the job folder {folder}: {error}") from error
        raise otherwise(f"cannot write in the job folder {folder}: {error}") from error


def require_space(folder: Path) -> None:
    """Let a disk show that it has space for what a run writes first.

    Raises:
        StoreFull: it has not.
    """
    path = folder / "space.partial"
    with writing(folder):
        try:
            path.unlink(missing_ok=True)
            with path.open("xb") as file:
                file.write(bytes(PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        finally:
            with contextlib.suppress(OSError):
                path.unlink()

"""What lies in a job folder is a file where a file should be, and no link to elsewhere.

Names that a job keeps are UTF-8.

A job folder may come from a disk that was full, from a copy that was broken off, or from
somebody else: what paceline writes through a link in it, it writes to a place of the user's
that nobody has named.

Waits: for the file system only.

The small files of a job folder: whole or not there, and what a full disk does to them.

Waits: for the disk.
"""

import contextlib
import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from paceline.errors import (
    PacelineError,
    StoreError,
    StoreFull,
    UsageError,
    spelt_out,
    why_full,
)

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFREG: "a file",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def require_files(paths: Iterable[Path]) -> None:
    """Let each be a plain file, or not be there.

    Raises:
        UsageError: names the first that is something else, and the way around it.
    """
    for path in paths:
        _require(path, stat.S_IFREG, follows=False)


def require_folders(paths: Iterable[Path]) -> None:
    """Let each be a folder, a link to one, or not be there.

    Raises:
        UsageError: names the first that is something else, and the way around it.
    """
    for path in paths:
        _require(path, stat.S_IFDIR, follows=True)


def require_utf8(what: str, name: str) -> None:
    """Let a name be one that messages and files of a job can hold.

    Raises:
        UsageError: it has bytes that are no UTF-8.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{what}: {spelt_out(name)} has bytes that are no UTF-8, which messages and "
            "files of a job cannot hold: rename it"
        ) from None


def _require(path: Path, kind: int, *, follows: bool) -> None:
    try:
        found = stat.S_IFMT(path.lstat().st_mode)
        if follows and found == stat.S_IFLNK and path.is_dir():
            found = stat.S_IFDIR
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise UsageError(f"cannot look at {path}: {error.strerror}") from error
    if found != kind:
        what, where = shlex.quote(str(path)), shlex.quote(f"{path}.away")
        raise UsageError(
            f"{path}: expected {_KINDS[kind]}, found {_KINDS.get(found, 'a device')}; move "
            f"it away: mv {what} {where}"
        )


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

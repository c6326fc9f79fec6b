"""The small files of a job folder: what they may be, how they are written and read.

They are files where files should be, and no links to elsewhere: a job folder may come from
a disk that was full, from a copy that was broken off, or from somebody else, and what
paceline writes through a link in it, it writes to a place of the user's that nobody has
named. They are whole or not there; names that a job keeps are UTF-8.

The run's secret is one, for whoever may look at the job: made anew for each run (never
written over what is there), readable by its owner only, removed when the run has ended.
What others could read is not believed: it is a secret no more.

Waits: for the disk.
"""

import contextlib
import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from paceline.errors import (
    PacelineError,
    StoreError,
    StoreFull,
    UsageError,
    spelt_out,
    why_full,
)
from paceline.machine import AS_BYTES, NO_LINK, own_user
from paceline.transport.handshake import Secret

_T = TypeVar("_T")

PROBE_BYTES = 256 << 10  # a journal's first pages, logs, and the small files
_SECRET_FLAGS = os.O_CREAT | os.O_EXCL | os.O_WRONLY | NO_LINK | AS_BYTES
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


def read_json(path: Path, kind: type[_T], remedy: str = "") -> _T | None:
    """What a file holds; None if it is not there.

    Raises:
        StoreError: it cannot be read, or is damaged; with the ``remedy``.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        require_files([path])
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UsageError, ValueError) as error:
        what = "empty" if not data else f"damaged: {error}"
        told = f"cannot read {path}, which is {what}"
        raise StoreError(f"{told}; {remedy}" if remedy else told) from error


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


def write_secret(path: Path, secret: Secret) -> None:
    """Keep the run's secret, in the place of one that a killed launcher left.

    Raises:
        UsageError: it cannot be made.
    """
    path.unlink(missing_ok=True)
    try:
        descriptor = os.open(path, _SECRET_FLAGS, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secret.text() + "\n")
    except OSError as error:
        raise UsageError(f"cannot write the run's secret to {path}: {error}") from error


def read_secret(path: Path) -> Secret | None:
    """The run's secret; None when there is no such file: the run needs none, or has ended.

    Raises:
        UsageError: it cannot be read, is no secret, or others can read it.
    """
    try:
        with path.open() as file:
            found = os.fstat(file.fileno())
            text = file.read(4096)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the run's secret: {error}") from error
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != own_user() or mode & 0o077:
        raise UsageError(
            f"{path}: expected a file of user {own_user()} with mode 0600, got user "
            f"{found.st_uid} and mode {mode:04o}; others can read the run's secret"
        )
    return Secret.parse(text, str(path))


def remove_secret(path: Path) -> None:
    """Nobody is to be let in any more; done twice is done once."""
    path.unlink(missing_ok=True)

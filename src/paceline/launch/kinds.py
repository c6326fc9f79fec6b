"""What lies in a job folder is a file where a file should be, and no link to elsewhere.

Names that a job keeps are UTF-8.

A job folder may come from a disk that was full, from a copy that was broken off, or from
somebody else: what paceline writes through a link in it, it writes to a place of the user's
that nobody has named.

Waits: for the file system only.
"""

import shlex
import stat
from collections.abc import Iterable
from pathlib import Path

from paceline.errors import UsageError, spelt_out

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

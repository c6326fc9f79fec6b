"""The private folder of a job's Unix sockets: who made it, and who may remove it.

::

    $TMPDIR/paceline-run-x7k2_9qd   mode 0700; its launcher holds a lock on it
        coordinator.sock  server-0.sock  trainer-1.sock
        trainer-0.4711              where the ranks of a trainer meet
        function                    what trainers call, where that is no script; mode 0600

Whoever finds the name of such a folder, in the ``run.json`` of a folder that may be
somebody else's, removes it only if it can be nothing else: `remove_left`. What a launcher
leaves that is killed before its coordinator runs, the next one of the user removes.

Waits: for the file system only.
"""

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from paceline.errors import UsageError, spelt_out
from paceline.machine import (
    AS_BYTES,
    NO_LINK,
    hold_file,
    open_folder,
    own_user,
)

PREFIX = "paceline-"
HELD_PREFIX = "paceline-run-"  # its maker locks it; earlier versions locked none
LONGEST_SOCKETS = 80  # bytes of the folder's path; leaves 27 for a socket's name
_SHORT = Path("/tmp")
_MODE = 0o700
_MEETING = re.compile(r"[a-z]+-\d+\.\d+")  # of ranks: torch keeps a file there
_FUNCTION = "function"


@contextlib.contextmanager
def hold_sockets() -> Iterator[Path]:
    """A fresh folder that is this process's while the block runs, and then gone.

    Raises:
        UsageError: none can be made.
    """
    remove_unheld()
    with contextlib.ExitStack() as stack:
        try:
            folder = _make_held(stack)
        except OSError as error:
            raise UsageError(
                f"cannot make a folder for the job's sockets: {error}; set TMPDIR to a "
                "folder that can be written to"
            ) from error
        stack.callback(remove_sockets, folder)
        yield folder


def make_sockets() -> Path:
    """Make a private folder (0700) for a job's Unix sockets; its path is short UTF-8."""
    path = tempfile.mkdtemp(prefix=HELD_PREFIX)
    if len(os.fsencode(path)) <= LONGEST_SOCKETS and path == spelt_out(path):
        return Path(path)
    Path(path).rmdir()
    return Path(tempfile.mkdtemp(prefix=HELD_PREFIX, dir=_SHORT))


def keep_function(folder: Path, content: bytes) -> None:
    """Lay what trainers call into one's own folder, for one's user alone.

    Raises:
        UsageError: it cannot be written.
    """
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | NO_LINK | AS_BYTES
    try:
        with os.fdopen(os.open(folder / _FUNCTION, flags, 0o600), "wb") as file:
            file.write(content)
    except OSError as error:
        raise UsageError(f"cannot keep the function in {folder}: {error}") from error


def read_function(folder: Path) -> bytes:
    """What `keep_function` has kept.

    Raises:
        UsageError: there is none, or one that others have written or may read.
    """
    path = folder / _FUNCTION
    try:
        descriptor = os.open(path, os.O_RDONLY | NO_LINK | AS_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read the function: {error}") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != own_user() or mode & 0o077:
            raise UsageError(
                f"{path}: expected a file of user {own_user()} with mode 0600, got user "
                f"{found.st_uid} and mode {mode:04o}"
            )
        return file.read()


def remove_sockets(folder: Path) -> None:
    """Remove one's own folder and what is in it; done twice, or by two, is done once."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
        folder.rmdir()


def remove_left(folder: Path) -> str | None:
    """Remove a folder that one has only heard of, if it can be nothing else.

    Its name is one that `make_sockets` gives, nobody but this user can have made it or put
    anything in it, it holds nothing but sockets, and no launcher holds it.

    Returns:
        Why it was kept; None if it is gone.
    """
    if folder.parent not in _roots() or not folder.name.startswith(PREFIX):
        return f"expected {PREFIX}* in {' or '.join(map(str, _roots()))}"
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, _lock(folder))
            reason = _why_foreign(folder)
            if reason is None:
                remove_sockets(folder)
            return reason
    except BlockingIOError:
        return "another job runs with it"
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"it cannot be looked at: {error.strerror}"


def remove_unheld() -> None:
    """Remove what launchers of this user have left that were killed."""
    for root in _roots():
        with suppress(OSError):
            for path in root.glob(f"{HELD_PREFIX}*"):
                remove_left(path)


def _why_foreign(folder: Path) -> str | None:
    found = folder.lstat()
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != own_user() or mode != _MODE:
        return (
            f"expected a folder of user {own_user()} with mode {_MODE:04o}, got user "
            f"{found.st_uid} and mode {mode:04o}"
        )
    strange = [path.name for path in folder.iterdir() if not _is_known(path)]
    return f"{strange[0]!r} in it is no socket" if strange else None


def _roots() -> list[Path]:
    """Where `make_sockets` makes folders."""
    with suppress(FileNotFoundError):  # there may be no place for temporary files at all
        return sorted({Path(tempfile.gettempdir()), _SHORT})
    return [_SHORT]


def _is_known(path: Path) -> bool:
    mode = path.lstat().st_mode
    if stat.S_ISREG(mode):
        return path.name == _FUNCTION or _MEETING.fullmatch(path.name) is not None
    return stat.S_ISSOCK(mode)


def _make_held(stack: contextlib.ExitStack) -> Path:
    while True:
        folder = make_sockets()
        try:
            descriptor = _lock(folder)
        except (BlockingIOError, FileNotFoundError):
            continue  # another launcher took it for one that was left
        except OSError:
            return folder  # no locks on this file system: nobody finds it free either
        if folder.is_dir():
            stack.callback(os.close, descriptor)
            return folder
        os.close(descriptor)


def _lock(folder: Path) -> int:
    """Hold a folder; the hold falls with the process, and no child inherits it."""
    descriptor = open_folder(folder, NO_LINK)
    if descriptor is None:
        raise OSError("folders cannot be held here")
    try:
        hold_file(descriptor)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor

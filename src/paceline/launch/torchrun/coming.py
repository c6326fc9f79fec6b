"""A process that torchrun has started comes to the daemon of its machine.

::

    $TMPDIR/paceline-torchrun-<of user, run, machine>     mode 0700
        lock    held by the daemon as long as it lives: the first who has it starts one
        door    where guests come in
        led     torchrun, and the job folder, if it leads: if it is killed, the next one
                of the same torchrun goes on with it

Waits: for the daemon to be there, and for a role. The thread of the user's script.
"""

import contextlib
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import xxhash

from paceline.errors import JobFailed, PeerLost, UsageError
from paceline.launch.guests import Arrive, GuestVisit, JobOver
from paceline.launch.job import Place, UserScript, read_place
from paceline.launch.torchrun.above import find_torchrun
from paceline.launch.torchrun.found import Torchrun, read_torchrun
from paceline.launch.torchrun.wishes import digest_of, read_wishes
from paceline.machine import hold_file, machine_name, require_linux
from paceline.timing import Deadline, SystemClock, wall_time_s

START_S = 120.0  # of imports, on a cold disk
LOOK_EVERY_S = 0.05
_LONGEST = 90  # bytes of a path: the kernel takes 107 for a socket
_DAEMON = "paceline.launch.torchrun.daemon"
_PREFIX = "paceline-torchrun-"
DOOR, LOCK, LED = "door", "lock", "led"  # in the machine's folder
LEFT_S = 86400.0  # before a folder is removed whose daemon was killed


class Birth(NamedTuple):
    """What the first guest of a machine tells its daemon."""

    folder: str
    script: UserScript
    torchrun: Torchrun
    wish: str


class Come(NamedTuple):
    """A trainer's place, and the visit that gave it."""

    visit: GuestVisit
    place: Place


def come(environ: Mapping[str, str], script: UserScript) -> Come | JobOver:
    """Be a trainer of this torchrun's job; or how that has ended.

    Raises:
        UsageError: torchrun or the environment says something that cannot be.
        JobFailed: nobody on this machine gives a role.
    """
    require_linux("torchrun with paceline")
    parent, started_at, command_line = find_torchrun(environ, os.getppid())
    torchrun = read_torchrun(environ, parent, command_line)._replace(started=started_at)
    wishes, text = read_wishes(environ, torchrun), _text(script)
    wish = digest_of(wishes, script, text, torchrun)
    arrive = Arrive(parent, torchrun.nonce, wish)
    folder = _folder(torchrun)
    birth = Birth(str(folder), script, torchrun, wish)
    deadline, pause = Deadline(SystemClock(), START_S), threading.Event()
    started: subprocess.Popen[bytes] | None = None
    while not deadline.is_over():
        try:
            visit = GuestVisit(folder / DOOR, arrive)
            is_first = environ.get("LOCAL_RANK", "0") == "0"
            found = visit.wait_place(_say, is_told=is_first)
        except (OSError, PeerLost):  # there is none yet, or it goes just now
            started = _start_first(folder, birth) or started
            if started is not None and started.poll() not in {None, 0}:
                break
            pause.wait(LOOK_EVERY_S)
            continue
        if isinstance(found, JobOver):
            visit.close()
            return found
        place = read_place(found)
        assert place is not None, "a host names one"
        return Come(visit, place)
    raise JobFailed(
        "no process of paceline's is there on this machine that gives roles to those of "
        f"torchrun (its folder is {folder}): see what was said before this"
    )


def _text(script: UserScript) -> bytes:
    with suppress(OSError):  # the working folder is another one by now
        return b"" if script.is_module else Path(script.path).read_bytes()
    return b""


def _start_first(folder: Path, birth: Birth) -> "subprocess.Popen[bytes] | None":
    """Start the daemon, if no other process has begun to; it has the lock from now on."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # the last daemon has taken it away as it went
        folder.mkdir(mode=0o700, exist_ok=True)
        return None
    try:
        hold_file(lock)
        if not _is_still(lock, folder / LOCK):
            return None
        with suppress(FileNotFoundError):
            (folder / DOOR).unlink()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _DAEMON],
            stdin=subprocess.PIPE,
            stdout=2,
            stderr=2,
            start_new_session=True,
            pass_fds=(lock,),
        )
    except BlockingIOError:
        return None
    finally:
        os.close(lock)
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as told:
        told.write(msgspec.msgpack.encode(birth))
    return process


def _is_still(lock: int, path: Path) -> bool:
    """Whether a locked file is the one at the path, and was not removed meanwhile."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock), path.stat())
    return False


def _folder(torchrun: Torchrun) -> Path:
    """The machine's private folder for a run.

    Raises:
        UsageError: it is another user's, or cannot be made.
    """
    meet = torchrun.store if torchrun.is_elastic else torchrun.parent
    key = f"{os.geteuid()} {torchrun.run} {machine_name()} {meet}"
    name = f"{_PREFIX}{xxhash.xxh3_64_hexdigest(key.encode())}"
    folder = Path(tempfile.gettempdir(), name)
    if len(os.fsencode(folder / DOOR)) > _LONGEST:
        folder = Path("/tmp", name)
    try:
        _sweep(folder)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made: {error}; set TMPDIR") from error
    if found.st_uid != os.geteuid() or found.st_mode & 0o077 or folder.is_symlink():
        raise UsageError(
            f"{folder}: expected a folder that this user alone may enter: remove it, or "
            "set TMPDIR"
        )
    return folder


def _sweep(own: Path) -> None:
    """Remove what other daemons of this user have left that were killed, a day later."""
    for path in set(own.parent.glob(f"{_PREFIX}*")) - {own}:
        with suppress(OSError), contextlib.ExitStack() as stack:
            found = path.lstat()
            is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            if not is_own or wall_time_s() - found.st_mtime < LEFT_S:
                continue
            lock = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            stack.callback(os.close, lock)
            hold_file(lock)
            for name in (DOOR, LED, LOCK):
                (path / name).unlink(missing_ok=True)
            path.rmdir()


def _say(text: str) -> None:
    print(f"paceline: {text}", file=sys.stderr, flush=True)  # noqa: T201

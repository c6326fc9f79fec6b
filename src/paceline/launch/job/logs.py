"""The logs of a job folder, as they are looked at: which there are, and what is in them.

A log has the name of the role that writes it, or of what starts roles: ``trainer-0``,
``forkserver``. Nothing else in the folder is looked at, whatever name is asked for, and no
link is followed.

Waits: for the disk.
"""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from paceline.machine import AS_BYTES, NO_LINK

LOG_PIECE_BYTES = 256 << 10  # of a log, at once

_NAME = re.compile(r"([a-z]+)(?:-([0-9]+))?")
_READ = os.O_RDONLY | NO_LINK | AS_BYTES | getattr(os, "O_NONBLOCK", 0)


def log_kind(name: str) -> str | None:
    """The kind of a log, ``trainer`` of ``trainer-0``; None: that is no name of a log."""
    found = _NAME.fullmatch(name)
    return None if found is None else found[1]


def log_sizes(logs: Path) -> dict[str, int]:
    """All logs of the folder ``logs`` with their bytes, {name: bytes}, in order."""
    found = {}
    with suppress(OSError), os.scandir(logs) as entries:
        for entry in entries:
            name = entry.name.removesuffix(".log")
            if name == entry.name or log_kind(name) is None:
                continue
            with suppress(OSError):  # it was removed a moment ago
                about = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(about.st_mode):
                    found[name] = about.st_size
    return {name: found[name] for name in sorted(found, key=_place)}


def read_log(logs: Path, name: str, offset: int, most: int = LOG_PIECE_BYTES) -> bytes:
    """Up to ``most`` bytes of a log from ``offset`` on; empty at its end.

    Raises:
        FileNotFoundError: there is no such log.
        OSError: it cannot be read.
    """
    path = logs / f"{name}.log"
    if log_kind(name) is None:
        raise FileNotFoundError(f"{path} is no log")
    descriptor = os.open(path, _READ)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(f"{path} is no file")
        if offset >= found.st_size:
            return b""
        os.lseek(descriptor, max(0, offset), os.SEEK_SET)
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def _place(name: str) -> tuple[str, int]:
    kind, _, number = name.partition("-")
    return kind, int(number or 0)

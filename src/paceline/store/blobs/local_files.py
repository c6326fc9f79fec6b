"""Files of a local folder, durable or not there: what `BlobStore` does on this machine.

Waits: for the disk. Any thread.
"""

import contextlib
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from paceline.machine import AS_BYTES, open_folder

Buffer = bytes | bytearray | memoryview
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")


def write_file(path: Path, buffers: Sequence[Buffer], kept: Path | None = None) -> None:
    """Make a file atomically and durably, with its folder if need be.

    Raises:
        FileExistsError: the name is taken.
        FileNotFoundError: ``kept``, a folder that is never made here, is not there.
        OSError: the disk refuses; nothing is left of the file.
    """
    make_folder(path.parent, kept)
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        _write_durably(temporary, buffers)
        os.link(temporary, path)  # a rename would replace an existing file silently
    finally:
        with contextlib.suppress(OSError):  # what stays is seen by nobody
            os.unlink(temporary)
    try:
        sync_folder(path.parent)
    except OSError:
        os.unlink(path)  # a name that a power loss takes back was never given
        raise


def remove_temporaries(folder: Path) -> None:
    """Remove what `write_file` has left in a folder where its process was killed."""
    for path in folder.glob(".*.tmp"):
        if _TEMPORARY.fullmatch(path.name):
            path.unlink(missing_ok=True)


def make_folder(folder: Path, kept: Path | None = None) -> None:
    """Make a folder with all above it, but for ``kept``; each durable in its parent.

    Raises:
        FileNotFoundError: ``kept`` is not there.
    """
    if not folder.is_dir():
        if folder == kept:
            raise FileNotFoundError(
                f"{kept} was there when the run began, and is gone; what lies in its "
                "place now is left alone: make it again if it is to have checkpoints of "
                "this run"
            )
        make_folder(folder.parent, kept)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = open_folder(folder)
    if descriptor is None:  # names are as durable there as the system makes them
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_durably(path: Path, buffers: Sequence[Buffer]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | AS_BYTES
    descriptor = os.open(path, flags, 0o666)
    try:
        for buffer in buffers:
            rest = memoryview(buffer)
            if rest.nbytes == 0:
                continue
            rest = rest.cast("B")
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        # Once only: after an error the pages count as written, and a second fsync of the
        # same file would say yes to what is lost. Whoever tries again writes a new file.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Which files of the working folder the machines of a cluster are given.

All but what jobs make, and what others make from it: ``.git``, ``.venv``, ``__pycache__``,
the folder ``runs``, folders of jobs wherever they lie, and the file with the secret. They
go through Ray's head, which keeps them in memory: so they are few, or refused.

Waits: for the file system.
"""

import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from paceline.errors import UsageError
from paceline.launch.job import RUNS, SECRET_FILE, JobDir

MOST_BYTES = 100 << 20
MOST_FILES = 50_000
LEFT_OUT = frozenset({".git", ".venv", "__pycache__"})
LARGEST = 3  # files that are named, when there is too much
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the same files are the same bytes


class PackedFile(NamedTuple):
    """A file of a folder, by its path in there, and its size in bytes."""

    path: str
    size: int


def files_to_upload(root: Path) -> list[PackedFile]:
    """What of a folder the machines are given, in the order of paths.

    Raises:
        UsageError: it is too much; the largest files are named.
    """
    found: list[PackedFile] = []
    for one in _files(root):
        found.append(one)
        if len(found) > MOST_FILES:
            raise _too_much(root, found, f"more than {MOST_FILES:,} files")
    size = sum(one.size for one in found)
    if size > MOST_BYTES:
        raise _too_much(root, found, f"{len(found):,} files, {_megabytes(size)}")
    return sorted(found)


def told_upload(root: Path, files: list[PackedFile]) -> str:
    """What is uploaded, in words."""
    size = sum(one.size for one in files)
    count = "1 file" if len(files) == 1 else f"{len(files):,} files"
    return f"{root} goes to the cluster: {count}, {_megabytes(size)}"


def pack(root: Path, files: list[PackedFile], archive: Path) -> None:
    """Write files of a folder into an archive.

    Raises:
        UsageError: one cannot be read.
    """
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for one in files:
            try:
                content = (root / one.path).read_bytes()
                mode = (root / one.path).stat().st_mode
            except OSError as error:
                raise UsageError(
                    f"--engine ray: {root / one.path} cannot be read, and is to go to the "
                    f"cluster: {error.strerror}"
                ) from error
            entry = zipfile.ZipInfo(one.path, _NO_TIME)
            entry.external_attr = stat.S_IMODE(mode) << 16
            packed.writestr(entry, content, zipfile.ZIP_DEFLATED)


def _files(root: Path) -> Iterator[PackedFile]:
    named = os.environ.get(SECRET_FILE)
    secret = None if named is None else Path(named).resolve()
    for folder, folders, names in os.walk(root):
        is_root = Path(folder) == root
        left_out = LEFT_OUT | {str(RUNS)} if is_root else LEFT_OUT
        folders[:] = [
            name
            for name in folders
            if name not in left_out and not JobDir(Path(folder, name)).config.exists()
        ]
        for name in names:
            path = Path(folder, name)
            if path.resolve() == secret:
                continue
            try:
                found = path.stat()
            except OSError:  # a link that leads nowhere
                continue
            if stat.S_ISREG(found.st_mode):
                yield PackedFile(str(path.relative_to(root)), found.st_size)


def _too_much(root: Path, files: list[PackedFile], what: str) -> UsageError:
    largest = sorted(files, key=lambda one: one.size, reverse=True)[:LARGEST]
    named = ", ".join(f"{one.path} ({_megabytes(one.size)})" for one in largest)
    return UsageError(
        f"--engine ray: the working folder {root} goes to all machines, and has too much "
        f"for that: {what}, where at most {MOST_BYTES >> 20} MB are sent; the largest are "
        f"{named}; start it in a folder with the script and its modules alone, or, where "
        "all machines have this folder at the same path, say --no-upload"
    )


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MB"

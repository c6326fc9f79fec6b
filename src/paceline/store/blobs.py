"""Files of bytes in a folder or an object store, whole or not at all.

A file is written under a temporary name beside its own, synced, and then given its name,
which it keeps for ever: no name is written twice, so a reader never sees half a file, and
a late writer cannot change what a manifest has described.

============  =========================================================================
local folder  temporary file, fsync, link (atomic, refuses an existing name), fsync of
              the folder
other URLs    one PUT through fsspec that refuses an existing name
============  =========================================================================

Names are made by us and checked all the same: plain words separated by ``/``; none starts
with a dot (those are temporaries), and symbolic links below the root are refused.

Waits: for storage, in every method. Any thread; a store has no state of its own.
"""

import contextlib
import errno
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import final

import fsspec
import xxhash
from fsspec.implementations.local import LocalFileSystem

from paceline.errors import CheckpointCorrupt, StoreError
from paceline.messages import FileEntry

_WORD = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_PIECE_BYTES = 1 << 20
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

Buffer = bytes | bytearray | memoryview


def digest(*buffers: Buffer) -> str:
    """xxh3-64 of the joined bytes of C-contiguous buffers, as 16 hex digits."""
    hasher = xxhash.xxh3_64()
    for buffer in buffers:
        hasher.update(buffer)
    return hasher.hexdigest()


def is_bare_name(name: str) -> bool:
    """Whether ``name`` may be a file or folder of its own, with no folder in front."""
    return _WORD.fullmatch(name) is not None


@final
class BlobStore:
    """Write-once files below one root."""

    def __init__(self, url: str) -> None:
        """Look at a local folder, made when first written to, or any fsspec URL."""
        self.url = url.rstrip("/")
        self._fs, self._root = fsspec.url_to_fs(self.url)
        self._is_local = isinstance(self._fs, LocalFileSystem)

    def folder(self, name: str) -> "BlobStore":
        """The store whose root is the folder ``name`` of this one; nothing is made."""
        self._place(name)
        return BlobStore(f"{self.url}/{name}")

    def write(self, name: str, buffers: Sequence[Buffer]) -> FileEntry:
        """Make the file ``name`` of the joined buffers, durable when it returns.

        The buffers must not change meanwhile. The entry's name is the last word of
        ``name``. After an error nothing of the file is there; call again to try again.

        Raises:
            StoreError: the name is taken or not allowed, or the storage is full or fails.
        """
        place = self._place(name)
        with self._translated(f"write {name}"):
            if self._is_local:
                _write_file(Path(place), buffers)
            else:
                self._fs.pipe_file(place, b"".join(buffers), mode="create")
        size = sum(memoryview(buffer).nbytes for buffer in buffers)
        return FileEntry(name.rsplit("/", 1)[-1], size, digest(*buffers))

    def size(self, name: str) -> int | None:
        """Bytes of a file; None if there is none of this name."""
        place = self._place(name)
        with self._translated(f"look at {name}"):
            try:
                about = self._fs.info(place)
            except FileNotFoundError:
                return None
        if about["type"] != "file":
            raise StoreError(f"{self.url}/{name}: expected a file, got a {about['type']}")
        return int(about["size"])

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return self.size(name) is not None

    def read(self, name: str) -> bytes:
        """All bytes of a file.

        Raises:
            StoreError: there is none, or the storage fails.
        """
        if self.size(name) is None:
            raise StoreError(f"{self.url}/{name}: there is no such file")
        with self._translated(f"read {name}"):
            data: bytes = self._fs.cat_file(self._place(name))
            return data

    def read_entry(self, entry: FileEntry) -> bytes:
        """All bytes of a file that a manifest describes, checked.

        Raises:
            CheckpointCorrupt: it is missing, or its size or hash differ; size is looked
                at first, so a file that has grown is not read.
        """
        self.verify_size(entry)
        data = self.read(entry.name)
        self._verify_hash(entry, digest(data))
        return data

    def verify(self, entry: FileEntry) -> None:
        """Do as `read_entry`, in pieces and keeping nothing.

        Raises:
            CheckpointCorrupt: it is missing, or its size or hash differ.
        """
        self.verify_size(entry)
        hasher = xxhash.xxh3_64()
        with (
            self._translated(f"read {entry.name}"),
            self._fs.open(self._place(entry.name), "rb") as file,
        ):
            while piece := file.read(_PIECE_BYTES):
                hasher.update(piece)
        self._verify_hash(entry, hasher.hexdigest())

    def verify_size(self, entry: FileEntry) -> None:
        """Check that a file is there in the described size; its bytes are not read.

        Raises:
            CheckpointCorrupt: it is missing, or its size differs.
        """
        came = self.size(entry.name)
        if came is None:
            raise CheckpointCorrupt(f"{self.url}/{entry.name}: the file is missing")
        if came != entry.bytes:
            raise CheckpointCorrupt(
                f"{self.url}/{entry.name}: expected {entry.bytes} bytes, came {came}"
            )

    def names(self) -> list[str]:
        """Files right below the root, sorted; neither temporaries nor links."""
        return self._list("file")

    def folders(self) -> list[str]:
        """Folders right below the root, sorted; links are left out."""
        return self._list("directory")

    def remove(self, name: str) -> None:
        """Delete a file, durably; it is no error if there is none."""
        place = self._place(name)
        with self._translated(f"remove {name}"), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(place)
            if self._is_local:
                _sync_folder(Path(place).parent)

    def remove_folder(self, name: str) -> None:
        """Delete a folder and all in it; it is no error if there is none."""
        place = self._place(name)
        with self._translated(f"remove {name}"), contextlib.suppress(FileNotFoundError):
            self._fs.rm(place, recursive=True)

    def _list(self, kind: str) -> list[str]:
        self._fs.invalidate_cache()
        with self._translated("list"):
            try:
                entries = self._fs.ls(self._root, detail=True)
            except FileNotFoundError:
                return []
        names = (
            about["name"].rstrip("/").rsplit("/", 1)[-1]
            for about in entries
            if about["type"] == kind and not about.get("islink")
        )
        return sorted(filter(is_bare_name, names))

    def _place(self, name: str) -> str:
        """The full path of a name of ours.

        Raises:
            StoreError: the name is not allowed, or a link lies on its way.
        """
        words = name.split("/")
        if not all(map(is_bare_name, words)):
            raise StoreError(
                f"{self.url}: {name!r} is no name of ours: expected words of letters, "
                f"digits, '.', '_' and '-', none beginning with a dot, separated by '/'"
            )
        place = Path(self._root)
        for word in words if self._is_local else ():
            place /= word
            if place.is_symlink():
                raise StoreError(f"{place}: a symbolic link; a store holds only real files")
        return "/".join([self._root, *words])

    def _verify_hash(self, entry: FileEntry, came: str) -> None:
        if came != entry.xxh3:
            raise CheckpointCorrupt(
                f"{self.url}/{entry.name}: expected xxh3 {entry.xxh3}, came {came}"
            )

    @contextlib.contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        """Turn errors of the storage into errors of the house."""
        where = f"{self.url}: cannot {action}"
        try:
            yield
        except FileExistsError as error:
            raise StoreError(
                f"{where}: the name is taken, and names are written once"
            ) from error
        except OSError as error:
            if error.errno in _FULL:
                raise StoreError(
                    f"{where}: the disk is full; nothing older is lost, free space there "
                    f"and try again"
                ) from error
            raise StoreError(f"{where}: {error}") from error


def _write_file(path: Path, buffers: Sequence[Buffer]) -> None:
    """Make a local file atomically and durably; FileExistsError if the name is taken."""
    _make_folder(path.parent)
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            for buffer in buffers:
                file.write(buffer)
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(temporary)  # a rename would replace an existing file silently
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _make_folder(folder: Path) -> None:
    """Make a local folder with all above it, each durable in its parent."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Make the names in a local folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

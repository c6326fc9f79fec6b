"""Files of bytes in a folder or an object store, whole or not at all.

A file is written under a temporary name beside its own, synced, and then given its name,
which it keeps for ever: no name is written twice, so a reader never sees half a file, and
a late writer cannot change what a manifest has described.

============  =========================================================================
local folder  temporary file, fsync, link (atomic, refuses an existing name), fsync of
              the folder
other URLs    one PUT through fsspec that refuses an existing name; if it fails, what
              lies there is compared: the answer alone may have been lost
============  =========================================================================

Names are made by us and checked all the same: plain words separated by ``/``; none starts
with a dot (those are temporaries), and symbolic links below the root are refused.

Trouble that may pass is waited out for a moment (`paceline.store.blobs.retries`), each time
with a line in the log that says why.

Waits: for storage, in every method. Any thread; a store has no state of its own.
"""

import contextlib
import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, final

import fsspec
import xxhash
from fsspec.implementations.local import LocalFileSystem

from paceline.errors import (
    CheckpointCorrupt,
    PacelineError,
    StoreError,
    StoreFull,
    UsageError,
    why_full,
)
from paceline.messages.server import FileEntry
from paceline.store.blobs.local_files import (
    Buffer,
    make_folder,
    remove_temporaries,
    sync_folder,
    write_file,
)
from paceline.store.blobs.retries import Patience, may_pass

_WORD = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_PIECE_BYTES = 1 << 20

_T = TypeVar("_T")
_log = logging.getLogger("paceline.store")


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

    def __init__(
        self,
        url: str,
        patience: Patience = Patience(),  # noqa: B008  (immutable)
        *,
        is_begun: bool = False,
    ) -> None:
        """Look at a local folder, made when first written to, or any fsspec URL.

        ``is_begun``: the folder is there. If it is removed it is not made again, and
        nothing is written until somebody makes one of its name; whose, only claims tell.

        Raises:
            UsageError: nothing that is installed knows this kind of URL.
        """
        self.url = url.rstrip("/")  # of the root
        self._patience = patience
        try:
            # Without a cache of listings: other processes write here too.
            self._fs, self._root = fsspec.url_to_fs(self.url, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise UsageError(
                f"{self.url}: {error}; name a local folder, or install what fsspec needs "
                f"for it (for s3:// pip install 'paceline[s3]')"
            ) from error
        self._is_local = isinstance(self._fs, LocalFileSystem)
        self.local = (
            Path(self._root) if self._is_local else None
        )  # if it is of this machine
        self._kept = self.local if is_begun else None  # never made here
        # Libraries of object stores have errors of their own beside those of the system.
        self._foreign = OSError if self._is_local else Exception

    def folder(self, name: str) -> "BlobStore":
        """The store whose root is the folder ``name`` of this one; nothing is made."""
        self._place(name)
        inner = BlobStore(f"{self.url}/{name}", self._patience)
        inner._kept = self._kept
        return inner

    def make_root(self) -> None:
        """Make a local root, durably; an object store needs none.

        Raises:
            StoreError: it cannot be made.
        """
        if (local := self.local) is not None:
            self._tried("make the folder", lambda: make_folder(local))

    def write(self, name: str, buffers: Sequence[Buffer]) -> FileEntry:
        """Make the file ``name`` of the joined buffers, durable when it returns.

        The buffers must not change meanwhile. The entry's name is the last word of
        ``name``. After an error nothing of the file is there; call again to try again.
        In an object store it is no error if the same bytes are there already.

        Raises:
            StoreFull: the storage takes nothing more.
            StoreError: the name is taken or not allowed, or the storage fails.
        """
        place = self._place(name)
        size = sum(memoryview(buffer).nbytes for buffer in buffers)
        entry = FileEntry(name.rsplit("/", 1)[-1], size, digest(*buffers))
        tries = 0

        def put() -> None:
            nonlocal tries
            tries += 1
            if not self._is_local:
                self._put(place, b"".join(buffers), entry)
                return
            try:
                write_file(Path(place), buffers, self._kept)
            except FileExistsError:
                # A try that seemed to fail may have come through after all.
                if tries == 1 or self._hashed(place) != entry.xxh3:
                    raise

        self._tried(f"write {name}", put)
        return entry

    def size(self, name: str) -> int | None:
        """Bytes of a file; None if there is none of this name."""
        place = self._place(name)
        try:
            about = self._tried(f"look at {name}", lambda: self._fs.info(place))
        except StoreError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
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
        place = self._place(name)
        data: bytes = self._tried(f"read {name}", lambda: self._fs.cat_file(place))
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
        place = self._place(entry.name)
        came = self._tried(f"read {entry.name}", lambda: self._hashed(place))
        self._verify_hash(entry, came)

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

        def remove() -> None:
            with contextlib.suppress(FileNotFoundError):
                self._fs.rm_file(place)
            if self._is_local and Path(place).parent.is_dir():
                sync_folder(Path(place).parent)

        self._tried(f"remove {name}", remove)

    def remove_folder(self, name: str) -> None:
        """Delete a folder and all in it; it is no error if there is none."""
        place = self._place(name)

        def remove() -> None:
            with contextlib.suppress(FileNotFoundError):
                self._fs.rm(place, recursive=True)

        self._tried(f"remove {name}", remove)

    def remove_temporaries(self) -> None:
        """Delete what writers that were killed have left right below the root.

        Of a writer that lives, the write fails: call it when nobody has to write here any
        more. An object store has none.
        """
        if (local := self.local) is not None:
            self._tried("remove temporary files", lambda: remove_temporaries(local))

    def _put(self, place: str, data: bytes, entry: FileEntry) -> None:
        """One PUT; whatever it says, what lies there afterwards decides."""
        try:
            self._fs.pipe_file(place, data, mode="create")
        except Exception as error:
            try:
                size = self._fs.info(place)["size"]
            except Exception:  # noqa: BLE001  (the first error tells more)
                raise error from None
            if size != entry.bytes or self._hashed(place) != entry.xxh3:
                raise FileExistsError(place) from error

    def _hashed(self, place: str) -> str:
        hasher = xxhash.xxh3_64()
        with self._fs.open(place, "rb") as file:
            while piece := file.read(_PIECE_BYTES):
                hasher.update(piece)
        return hasher.hexdigest()

    def _list(self, kind: str) -> list[str]:
        def listed() -> list[dict[str, str]]:
            self._fs.invalidate_cache()
            try:
                found: list[dict[str, str]] = self._fs.ls(self._root, detail=True)
            except FileNotFoundError:
                return []
            return found

        entries = self._tried("list", listed)
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

    def _tried(self, action: str, do: Callable[[], _T]) -> _T:
        """Do it, again while the storage's trouble may pass; in errors of the house."""
        for pause_s in (*self._patience.pauses_s, None):
            try:
                return do()
            except PacelineError:
                raise
            except self._foreign as error:
                if pause_s is None or not may_pass(error):
                    raise self._translated(action, error) from error
                _log.warning(
                    "%s: cannot %s: %r; trying again in %g s",
                    *(self.url, action, error, pause_s),
                )
                self._patience.wait(pause_s)
        raise AssertionError("the last try returns or raises")

    def _translated(self, action: str, error: Exception) -> StoreError:
        where = f"{self.url}: cannot {action}"
        if isinstance(error, FileExistsError):
            return StoreError(f"{where}: the name is taken, and names are written once")
        if isinstance(error, OSError) and (why := why_full(error)) is not None:
            said = f"{where}: {why}; nothing older is lost"
            return StoreFull(said, self.url, why)
        return StoreError(f"{where}: {str(error) or repr(error)}")

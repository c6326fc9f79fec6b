"""Files that records lie in: found once, then read by ranges of bytes.

::

    path, glob, list of them --find_files--> DataFile...   (in a fixed order)
    ranges, in any order --sort, join neighbours, read, cut--> bytes, as they were asked

Paths are fsspec's: local ones, ``s3://``, ``memory://``, ``zip://a.csv::b.zip`` and the
like. Of a glob the files are sorted, of a list they keep its order, so that every trainer
counts the same records. On a local disk neighbours are ranges at most 4 KiB apart, each
read by one `pread`; elsewhere 64 KiB, since a request costs more than the bytes between
two records, and the requests of a batch go out together where fsspec can.

Waits: for storage. The trainer's own thread calls; no file is kept open.
"""

import contextlib
import glob
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import fsspec
import numpy as np
import xxhash
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray

from paceline.errors import DataError, PacelineError, UsageError, spelt_out

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Options = Mapping[str, Any]  # what a file system of fsspec takes: keys, end points, ...
Offsets = NDArray[np.int64]

_LOCAL_GAP_BYTES = 4 << 10
_REMOTE_GAP_BYTES = 64 << 10
_END_BYTES = 4 << 10  # of a file's beginning and end that a fingerprint looks at
_NUM_NAMED = 3  # files that a fingerprint tells by name
_PACKED = (".bz2", ".gz", ".lz4", ".lzma", ".xz", ".zip", ".zst")


class DataFile(NamedTuple):
    """One file as it was when it was found."""

    fs: Any  # an fsspec file system; fsspec has no types
    path: str  # as that file system has it
    url: str  # as messages name it
    name: str  # below the folder that all files share: equal on every machine
    size: int  # bytes

    @property
    def is_local(self) -> bool:
        """Whether the operating system reads it."""
        return isinstance(self.fs, LocalFileSystem)


class Ranges(NamedTuple):
    """Ranges of bytes in files: three int64 arrays ``(n,)``."""

    files: Offsets  # index of the file
    starts: Offsets
    stops: Offsets


def find_files(paths: Paths, options: Options | None = None) -> tuple[DataFile, ...]:
    """The files of a path, a glob, or a list of these; one look at each.

    A name that exists is taken as it stands, even with ``*`` or ``[`` in it.

    Raises:
        UsageError: a file is missing, a folder or packed, a glob matches nothing, or
            fsspec does not know the protocol.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not listed:
        raise UsageError("expected at least one path of a data file, got an empty list")
    found = [file for path in listed for file in _find(os.fspath(path), options or {})]
    places = [PurePosixPath(file.path).parts for file in found]
    shared = _num_shared([place[:-1] for place in places])
    return tuple(
        file._replace(name=spelt_out("/".join(place[shared:])))
        for file, place in zip(found, places, strict=True)
    )


def require_plain(files: Sequence[DataFile]) -> None:
    """Refuse packed files: in them no record can be reached without those before it.

    Raises:
        UsageError: the name of a file ends as those of packed files do.
    """
    for file in files:
        if file.path.lower().endswith(_PACKED):
            raise UsageError(
                f"{file.url}: a packed file cannot be read from the middle, and tasks "
                "begin anywhere: unpack it first, or use Parquet, which packs in parts"
            )


def describe_files(files: Sequence[DataFile]) -> str:
    """Names and sizes, in a length that does not grow: the rest goes into a hash."""
    told = ", ".join(f"{file.name} {file.size} bytes" for file in files[:_NUM_NAMED])
    if len(files) <= _NUM_NAMED:
        return told
    digest = xxhash.xxh3_64()
    for file in files:
        digest.update(f"{file.name}\0{file.size}\n".encode())
    total = sum(file.size for file in files)
    return f"{told}, ... {len(files)} files, {total} bytes, xxh3 {digest.hexdigest()}"


def hash_ends(files: Sequence[DataFile], more: bytes = b"") -> str:
    """xxh3-64 of the first and last 4 KiB of each file, and of ``more``: 16 hex digits.

    What lies between is not looked at: two reads for a file of any length.

    Raises:
        DataError: the storage fails, or a file is shorter than it was.
    """
    ends = [
        (index, start, min(start + _END_BYTES, file.size))
        for index, file in enumerate(files)
        for start in sorted({0, max(_END_BYTES, file.size - _END_BYTES)})
        if start < file.size
    ]
    digest = xxhash.xxh3_64()
    if ends:
        columns = (np.array(column, np.int64) for column in zip(*ends, strict=True))
        for piece in read_ranges(files, Ranges(*columns)):
            digest.update(piece)
    digest.update(more)
    return digest.hexdigest()


def read_ranges(files: Sequence[DataFile], ranges: Ranges) -> list[bytes]:
    """The bytes of each range, in the order asked; ranges are disjoint or equal.

    Costs one read for each run of neighbours, and twice the bytes in memory.

    Raises:
        DataError: the storage fails, or a file is shorter than it was.
    """
    if not len(ranges.starts):
        return []
    order = np.lexsort((ranges.starts, ranges.files))
    which, starts, stops = (array[order] for array in ranges)
    gaps = np.array(
        [_LOCAL_GAP_BYTES if file.is_local else _REMOTE_GAP_BYTES for file in files]
    )
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (which[1:] != which[:-1]) | (starts[1:] - stops[:-1] > gaps[which[1:]])
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(order)) - 1
    spans = Ranges(which[firsts], starts[firsts], stops[lasts])
    joined = _read_spans(files, spans)
    span = np.cumsum(is_first) - 1
    begins = (starts - spans.starts[span]).tolist()
    ends = (stops - spans.starts[span]).tolist()
    found = [b""] * len(order)
    for place, number, begin, end in zip(
        order.tolist(), span.tolist(), begins, ends, strict=True
    ):
        found[place] = joined[number][begin:end]
    return found


@contextlib.contextmanager
def named(file: DataFile, action: str) -> Iterator[None]:
    """Turn what a file system or a decoder raises into an error that names the file."""
    try:
        yield
    except PacelineError:
        raise
    except Exception as error:
        raise DataError(
            f"{file.url}: cannot {action}: {type(error).__name__}: {error}"
        ) from error


def _num_shared(folders: list[tuple[str, ...]]) -> int:
    """How many of the outermost folders all have in common."""
    # Where the first and the last in order agree, all between do.
    first, last = min(folders), max(folders)
    shared = 0
    while shared < min(len(first), len(last)) and first[shared] == last[shared]:
        shared += 1
    return shared


def _find(url: str, options: Options) -> list[DataFile]:
    """The files of one path or glob, sorted."""
    try:
        fs, path = fsspec.url_to_fs(url, **options)
        if glob.has_magic(path) and not fs.exists(path):
            listed = [about for _, about in sorted(fs.glob(path, detail=True).items())]
            # A listing does not look behind links, as caches of downloads are full of.
            entries = [
                about if about["type"] in {"file", "directory"} else fs.info(about["name"])
                for about in listed
            ]
            matched = [about for about in entries if about["type"] == "file"]
            if not matched:
                folder = PurePosixPath(path)
                while glob.has_magic(str(folder)):
                    folder = folder.parent
                raise UsageError(
                    f"{url}: no file matches in {folder}; expected at least one"
                )
        else:
            matched = [fs.info(path)]
    except FileNotFoundError as error:
        raise UsageError(f"{url}: there is no such file") from error
    except PacelineError:
        raise
    except Exception as error:  # an unknown protocol, a missing package, no right, ...
        raise UsageError(f"{url}: cannot be opened: {error}") from error
    return [_data_file(fs, url, about) for about in matched]


def _data_file(fs: Any, url: str, about: Mapping[str, Any]) -> DataFile:  # noqa: ANN401  (fsspec has no types)
    if about["type"] != "file":
        raise UsageError(
            f"{url}: expected a file, got a folder; name its files, as in "
            f"{url.rstrip('/')}/*"
        )
    path, size = str(about["name"]), about.get("size")
    if size is None:
        raise UsageError(f"{url}: the storage does not say how long the file is")
    shown = path if isinstance(fs, LocalFileSystem) else str(fs.unstrip_protocol(path))
    return DataFile(fs, path, shown, "", int(size))


def _read_spans(files: Sequence[DataFile], spans: Ranges) -> list[bytes]:
    """One read each; those of one file system outside of this machine go together."""
    joined: list[bytes] = []
    which = spans.files.tolist()
    begin = 0
    while begin < len(which):
        file = files[which[begin]]
        end = begin
        while end < len(which) and (
            which[end] == which[begin]
            or (not file.is_local and files[which[end]].fs is file.fs)
        ):
            end += 1
        read = _read_local if file.is_local else _read_remote
        run = [files[index] for index in which[begin:end]]
        starts, stops = spans.starts[begin:end].tolist(), spans.stops[begin:end].tolist()
        joined += read(run, starts, stops)
        begin = end
    for index, piece, start, stop in zip(
        which, joined, spans.starts.tolist(), spans.stops.tolist(), strict=True
    ):
        if len(piece) != stop - start:
            raise DataError(
                f"{files[index].url}: expected bytes {start} to {stop}, came only "
                f"{len(piece)} of them; the file has changed since it was opened"
            )
    return joined


def _read_local(run: list[DataFile], starts: list[int], stops: list[int]) -> list[bytes]:
    """Ranges of one local file; no seek, no buffer that is read ahead for nothing."""
    with named(run[0], "read it"), open(run[0].path, "rb", buffering=0) as file:
        return [
            _read_at(file, start, stop - start)
            for start, stop in zip(starts, stops, strict=True)
        ]


def _read_at(file: io.FileIO, start: int, size: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(file.fileno(), size, start)
    file.seek(start)  # Windows
    return file.read(size)


def _read_remote(run: list[DataFile], starts: list[int], stops: list[int]) -> list[bytes]:
    """Ranges of files of one file system, at once if it can."""
    paths = [file.path for file in run]
    with named(run[0], "read it"):
        pieces = run[0].fs.cat_ranges(paths, starts, stops, on_error="return")
    for file, piece in zip(run, pieces, strict=True):
        if isinstance(piece, Exception):
            with named(file, "read it"):
                raise piece
    return [bytes(piece) for piece in pieces]

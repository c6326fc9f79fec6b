"""Parquet files, read by row groups.

::

    footers --> rows of each row group --> which row group holds a record, and where
    a batch's records --by row group--> decoded columns, kept for a while --> batch

A row group is the least that Parquet can decode, so a batch costs every row group that it
touches, unless it is kept: what fits ``cache_bytes`` is decoded once. A shuffled batch of
data that does not fit decodes as many row groups as it has records, if there are so many:
then write smaller row groups, raise ``cache_bytes``, or leave the shuffle to who writes.

pyarrow is the one library that reads every codec and encoding of Parquet, and it reads
columns of one row group without the rest; it comes with ``paceline[parquet]`` and is
imported when a `Parquet` is made.

Waits: for storage, and for decoding. The trainer's own thread calls.
"""

import importlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray

from paceline.data.files.columns import ColumnSource, select_columns
from paceline.data.files.files import (
    DataFile,
    Options,
    Paths,
    describe_files,
    find_files,
    hash_ends,
    named,
)
from paceline.data.source import Records
from paceline.errors import DataError, UsageError

_CACHE_BYTES = 256 << 20

Values = NDArray[Any] | list[Any]


class _Group(NamedTuple):
    """One row group: of which file, and which of its."""

    file: int
    number: int


@final
class Parquet(ColumnSource):
    """Rows of Parquet; a batch is ``{column: tensor or list}``.

    A column of booleans, whole numbers or fractions is a tensor ``(n,)`` of its own dtype
    (uint16 as int32, uint32 and uint64 as int64, which torch can compute with); a list of
    ``k`` numbers each, fixed in the schema, is a tensor ``(n, k)``. Anything else is a
    list of what it is in Python: `str` for text, None for a missing one. A missing
    fraction is NaN; a missing whole number is an error.

    Opening reads the footers only. Memory: ``cache_bytes`` and one row group.

    Args:
        paths: path, glob, or a list of them, as fsspec takes them.
        columns: what to read, in this order; all by default. Others are never fetched.
        cache_bytes: of decoded row groups to keep, those last used.
        transform: that dictionary -> the batch that the loop gets.
        storage_options: for the file system, e.g. ``{"anon": True}`` for ``s3://``.

    Raises:
        UsageError: pyarrow is not installed, a file is missing, a glob matches nothing, a
            column is not there, files differ in one, or there is no record.
        DataError: a file is no Parquet, or the storage fails.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        columns: Sequence[str] | None = None,
        cache_bytes: int = _CACHE_BYTES,
        transform: Callable[[dict[str, Any]], Any] | None = None,
        storage_options: Options | None = None,
    ) -> None:
        super().__init__(transform)
        self._parquet = _import_parquet()
        self._files = find_files(paths, storage_options)
        # Any: pyarrow has no types
        footers: list[tuple[Any, Any]] = [self._read_footer(file) for file in self._files]
        self._footers = [metadata for metadata, _ in footers]
        # {column: its type in Arrow}
        self._columns = self._check_columns(columns, [schema for _, schema in footers])
        self._groups: list[_Group] = []
        lengths = []
        for index, footer in enumerate(self._footers):
            for number in range(footer.num_row_groups):
                self._groups.append(_Group(index, number))
                lengths.append(footer.row_group(number).num_rows)
        # Record at which each row group begins; then how many there are.
        self._firsts = np.cumsum([0, *lengths], dtype=np.int64)
        if not len(self):
            raise UsageError(f"Parquet: no record in {describe_files(self._files)}")
        self._cache = _Cache(cache_bytes)

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def read(self, records: Records) -> dict[str, Any]:
        """``{column: tensor (n,) or (n, k), or list}``.

        Raises:
            DataError: a whole number is missing, or the storage fails.
        """
        which = np.searchsorted(self._firsts, records, side="right") - 1
        rows = records - self._firsts[which]
        order = np.argsort(which, kind="stable")
        parts: dict[str, list[Values]] = {name: [] for name in self._columns}
        cuts = np.flatnonzero(np.diff(which[order])) + 1
        for places in np.split(order, cuts):
            columns = self._group(int(which[places[0]]))
            for name, column in columns.items():
                parts[name].append(_take(column, rows[places]))
        back = np.argsort(order, kind="stable")
        return {name: _join(pieces, back) for name, pieces in parts.items()}

    def fingerprint(self) -> str:
        """Names, sizes and a hash of the ends of the files, columns, number of records.

        The end of a Parquet file says the least and the most of each column in each row
        group.

        Raises:
            DataError: the storage fails, or a file is shorter than it was.
        """
        columns = ", ".join(f"{name}: {kind}" for name, kind in self._columns.items())
        told = f"{describe_files(self._files)}, xxh3 {hash_ends(self._files)}"
        return f"Parquet {told} {{{columns}}} x {len(self)}"

    def _read_footer(self, file: DataFile) -> tuple[Any, Any]:
        """What the end of a file says: its row groups, and its schema in Arrow."""
        with (
            named(file, "read its Parquet footer"),
            file.fs.open(file.path) as stream,
            self._parquet.ParquetFile(stream) as opened,
        ):
            return opened.metadata, opened.schema_arrow

    def _check_columns(
        self, wanted: Sequence[str] | None, schemas: Sequence[Any]
    ) -> dict[str, Any]:
        """Types of the columns to read, the same in every file."""
        found: dict[str, Any] = {}
        for file, schema in zip(self._files, schemas, strict=True):
            where = f"Parquet {file.url}"
            names = select_columns(schema.names, list(found) or wanted, where)
            for name in names:
                kind = schema.field(name).type
                if kind != found.setdefault(name, kind):
                    raise UsageError(
                        f"{where}: column {name!r} is {kind}, but {found[name]} in "
                        f"{self._files[0].url}; expected one type in all files"
                    )
        return found

    def _group(self, index: int) -> "_Columns":
        """The decoded columns of a row group, kept if there is room."""
        kept = self._cache.get(index)
        if kept is not None:
            return kept
        group = self._groups[index]
        file = self._files[group.file]
        with (
            named(file, f"read row group {group.number}"),
            file.fs.open(file.path) as stream,
            self._parquet.ParquetFile(
                stream, metadata=self._footers[group.file], pre_buffer=not file.is_local
            ) as opened,
        ):
            # One thread: trainers share the machine, and each has its share of it.
            table = opened.read_row_group(
                group.number, columns=list(self._columns), use_threads=False
            )
            columns = {
                name: _decode(table.column(name), f"{file.url}: column {name!r}")
                for name in self._columns
            }
        self._cache.put(index, columns, sum(column.nbytes for column in columns.values()))
        return columns


# {column: NumPy array (rows,) or (rows, k), or pyarrow's ChunkedArray}
_Columns = dict[str, Any]  # Any: pyarrow has no types


@final
class _Cache:
    """Decoded row groups, those last used, up to so many bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._kept: OrderedDict[int, tuple[_Columns, int]] = OrderedDict()  # oldest first

    def get(self, index: int) -> _Columns | None:
        if index not in self._kept:
            return None
        self._kept.move_to_end(index)
        return self._kept[index][0]

    def put(self, index: int, columns: _Columns, size: int) -> None:
        """Keep a row group and drop the oldest; one that is too large is not kept."""
        if size > self._most_bytes:
            return
        self._kept[index] = (columns, size)
        self._bytes += size
        while self._bytes > self._most_bytes:
            self._bytes -= self._kept.popitem(last=False)[1][1]


def _import_parquet() -> Any:  # noqa: ANN401  (pyarrow has no types)
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageError(
            "Parquet needs pyarrow; install it with: pip install 'paceline[parquet]'"
        ) from error


def _decode(column: Any, where: str) -> Any:  # noqa: ANN401  (pyarrow has no types)
    """Numbers as a NumPy array that torch can take; anything else as it is."""
    arrow = importlib.import_module("pyarrow")
    types = arrow.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    width = 0
    if types.is_fixed_size_list(column.type):
        width = column.type.list_size
        if not width or not _is_number(types, column.type.value_type):
            return column
        if column.null_count:
            raise DataError(f"{where}: expected {width} numbers in every row, got none")
        column = arrow.chunked_array([piece.flatten() for piece in column.chunks])
    if not _is_number(types, column.type):
        return column
    if column.null_count and not types.is_floating(column.type):
        raise DataError(
            f"{where}: expected {column.type} in every row, {column.null_count} are "
            "missing; fill them, or leave the column out by columns=[...]"
        )
    wider = {arrow.uint16(): "int32", arrow.uint32(): "int64", arrow.uint64(): "int64"}
    if column.type in wider:
        column = column.cast(wider[column.type])
    found = column.to_numpy()
    return found.reshape(-1, width) if width else found


def _is_number(types: Any, kind: Any) -> bool:  # noqa: ANN401  (pyarrow has no types)
    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind))


def _take(column: Any, rows: Records) -> Values:  # noqa: ANN401  (pyarrow has no types)
    """The values of rows: the caller's own."""
    if isinstance(column, np.ndarray):
        return column[rows]
    values: list[Any] = column.take(rows).to_pylist()
    return values


def _join(pieces: list[Values], back: Records) -> torch.Tensor | list[Any]:
    """All values of a column, in the order asked: number ``back[i]`` of those taken."""
    if isinstance(pieces[0], np.ndarray):
        return torch.from_numpy(np.concatenate(pieces)[back])
    taken = [value for piece in pieces for value in piece]
    return [taken[place] for place in back.tolist()]

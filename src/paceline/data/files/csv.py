"""CSV files: rows of texts, of which columns of numbers become tensors.

RFC 4180 as Python's `csv` reads it, strictly: fields may be quoted, quotes in them are
doubled, and a quoted field may go over several lines. UTF-8 only.

Waits: for storage. The trainer's own thread calls.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
import torch

from paceline.data.files.columns import (
    FRACTIONS,
    Column,
    ColumnSource,
    Kind,
    blurred,
    check_kinds,
    choose_kind,
    describe_kind,
    has_large,
    parse_column,
    parse_numbers,
    select_columns,
)
from paceline.data.files.files import (
    DataFile,
    Offsets,
    Options,
    Paths,
    describe_files,
    find_files,
    require_plain,
)
from paceline.data.files.lines import (
    MAX_FIELD_BYTES,
    LineIndex,
    cut_csv,
    index_file,
    long_fields,
)
from paceline.data.source import Records
from paceline.errors import DataError, UsageError

Texts = tuple[str, ...]

# Quotes; and what are blanks around a number to NumPy, but not to `float`.
_MARKS = (b'"', b"\x1c", b"\x1d", b"\x1e", b"\x1f")
_NUM_LOOKED_AT = 1000
_SHOWN = 60  # characters of a line in a message


@final
class Csv(ColumnSource):
    """Rows of CSV; a batch is ``{column: tensor (n,) or list of str}``.

    The dtype of a column follows from the first 1,000 records: int64, float32 (missing
    is NaN), float64 for whole numbers of which some are missing or that float32 would
    round, else `str`. A later record that does not fit is an error, and so is a whole
    number that would be rounded; ``dtypes`` decides otherwise.

    Opening reads every file once, for an index of 8 bytes a record; a batch then costs
    one read for each run of records that lie close together. Rows without any character
    are skipped, and so are files without any.

    Args:
        paths: path, glob, or a list of them, as fsspec takes them.
        columns: what to read, in this order; all by default.
        names: of the columns, if the files do not begin with a line that names them.
        dtypes: ``{column: int32, int64, float32 or float64 of torch, or str}``.
        delimiter: one ASCII character.
        transform: that dictionary -> the batch that the loop gets.
        storage_options: for the file system, e.g. ``{"anon": True}`` for ``s3://``.

    Raises:
        UsageError: a file is missing or packed, a glob matches nothing, a column is not
            there, files have different columns, or there is no record.
        DataError: a row is malformed, or the storage fails.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        columns: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        dtypes: Mapping[str, Kind] | None = None,
        delimiter: str = ",",
        transform: Callable[[dict[str, Column]], Any] | None = None,
        storage_options: Options | None = None,
    ) -> None:
        super().__init__(transform)
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            raise UsageError(
                f"Csv: expected one ASCII character as delimiter, got {delimiter!r}"
            )
        self._delimiter = delimiter
        files = find_files(paths, storage_options)
        require_plain(files)
        offsets = [index_file(file, cut_csv(delimiter)) for file in files]
        if names is None:
            there, offsets = self._take_headers(files, offsets)
        else:
            there = list(names)
        self._index = LineIndex(files, offsets)
        if not len(self._index):
            raise UsageError(f"Csv: no record in {describe_files(files)}")
        self._there = there
        chosen = select_columns(there, columns, f"Csv {files[0].url}")
        self._places = {name: there.index(name) for name in chosen}  # {column: field}
        check_kinds(dtypes or {}, chosen)
        # Columns whose kind the user has said: they are rounded to it if it must be.
        self._said = frozenset(dtypes or {})
        self._kinds = dict(dtypes or {})  # {column: its kind}
        self._choose_kinds()
        # How NumPy reads a row: fractions, and texts of all else.
        codes = ["d" if self._kinds.get(name) in FRACTIONS else "O" for name in there]
        self._row = np.dtype([(str(place), code) for place, code in enumerate(codes)])

    def __len__(self) -> int:
        return len(self._index)

    def read(self, records: Records) -> dict[str, Column]:
        """``{column: tensor (n,) or list of str}``.

        Raises:
            DataError: a row has too few or too many fields or is not UTF-8, a field does
                not fit its column's dtype, or the storage fails.
        """
        lines = self._index.read(records)
        found = self._at_once(lines)
        if found is None:
            fields = self._fields(records, lines)
            found = {
                name: self._column(records, fields[place], name)
                for name, place in self._places.items()
            }
        return found

    def fingerprint(self) -> str:
        """Names, sizes and a hash of the files, columns with dtypes, number of records."""
        columns = ", ".join(
            f"{name}: {describe_kind(kind)}" for name, kind in self._kinds.items()
        )
        return f"Csv {self._index.describe()} {{{columns}}} x {len(self)}"

    def _take_headers(
        self, files: Sequence[DataFile], offsets: Sequence[Offsets]
    ) -> tuple[list[str], list[Offsets]]:
        """The columns' names, the same in all files, and the offsets without their rows."""
        there: list[str] = []
        first = ""
        for file, each in zip(files, offsets, strict=True):
            if len(each) < 2:
                continue
            header = LineIndex([file], [each[:2]])
            line = header.read(np.zeros(1, np.int64))[0]
            with long_fields():
                found = self._parse(header, 0, line)
            if not first:
                there, first = found, file.url
            elif found != there:
                raise UsageError(
                    f"Csv: {file.url} begins with columns {', '.join(found)}, but {first} "
                    f"with {', '.join(there)}; expected the same line in every file, or "
                    "names=[...] if there is none"
                )
        return there, [each[1:] if len(each) > 1 else each for each in offsets]

    def _choose_kinds(self) -> None:
        """Say of what kind the columns are of which nobody has said it."""
        open_ones = [name for name in self._places if name not in self._said]
        first = np.arange(min(_NUM_LOOKED_AT, len(self)) if open_ones else 0)
        fields = self._fields(first, self._index.read(first))
        for name in open_ones:
            texts = fields[self._places[name]]
            self._kinds[name] = choose_kind(texts)
            self._column(first, texts, name)

    def _column(self, records: Records, texts: Texts, name: str) -> Column:
        kind = self._kinds[name]
        try:
            found = parse_column(texts, kind)
        except ValueError as error:
            raise self._misfit(records, texts, name) from error
        if name in self._said or kind not in FRACTIONS:
            return found
        assert isinstance(found, torch.Tensor)
        text = blurred(texts, found)
        if text is not None:
            raise self._blurred(int(records[texts.index(text)]), text, name)
        return found

    def _at_once(self, lines: list[bytes]) -> dict[str, Column] | None:
        """All columns as NumPy reads them, several times faster: no text for each fraction.

        None where `_fields` and `_column` have to look: at quotes and text beyond ASCII, at
        missing and large numbers, and at whatever is at fault. Numbers are the same.
        """
        block = b"".join(lines)
        is_plain = block.isascii() and not any(mark in block for mark in _MARKS)
        if not lines or not is_plain or len(block) > MAX_FIELD_BYTES:
            return None
        found: dict[str, Column] = {}
        try:
            table = np.loadtxt(
                [line.decode().rstrip("\r\n") for line in lines],
                self._row,
                delimiter=self._delimiter,
                comments=None,
                encoding=None,
                ndmin=1,
            )
            for name, place in self._places.items():
                column, kind = table[str(place)], self._kinds[name]
                if isinstance(kind, torch.dtype) and kind in FRACTIONS:
                    values = torch.from_numpy(np.ascontiguousarray(column)).to(kind)
                    if name not in self._said and has_large(values):
                        return None
                    found[name] = values
                else:
                    found[name] = parse_column(column.tolist(), kind)
        except ValueError:
            return None
        return found if len(table) == len(lines) else None

    def _fields(self, records: Records, lines: list[bytes]) -> list[Texts]:
        """The texts of each column that the files have."""
        with long_fields():
            try:
                # Texts with all their breaks: each is one row, or at fault.
                texts = [line.decode() for line in lines]
                rows = list(csv.reader(texts, delimiter=self._delimiter, strict=True))
            except (UnicodeDecodeError, csv.Error):
                rows = []
            if list(map(len, rows)) != [len(self._there)] * len(lines):
                raise self._malformed(records, lines)
        return list(zip(*rows, strict=True)) or [()] * len(self._there)

    def _malformed(self, records: Records, lines: list[bytes]) -> DataError:
        """What to say of the first line that is no row of so many fields."""
        for record, line in zip(records.tolist(), lines, strict=True):
            try:
                row = self._parse(self._index, record, line)
            except DataError as error:
                return error
            if len(row) != len(self._there):
                return DataError(
                    f"{self._index.where(record)}: expected {len(self._there)} fields "
                    f"({', '.join(self._there)}), got {len(row)}: {_shown(line)}"
                )
        raise AssertionError("every line is a row by itself, but not together")

    def _parse(self, index: LineIndex, record: int, line: bytes) -> list[str]:
        """The fields of one row; empty rows may follow it and are left."""
        try:
            # One text with all its breaks: a file would also be cut at a lone \r.
            return next(csv.reader([line.decode()], delimiter=self._delimiter, strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise DataError(
                f"{index.where(record)}: expected a row of CSV in UTF-8, got "
                f"{_shown(line)}: {error}"
            ) from error

    def _misfit(self, records: Records, texts: Texts, name: str) -> DataError:
        """What to say of the first text that is not of its column's kind."""
        kind = self._kinds[name]
        assert not isinstance(kind, type), "every text is a str"
        for record, text in zip(records.tolist(), texts, strict=True):
            try:
                parse_numbers([text], kind)
            except ValueError:
                return DataError(
                    f"{self._index.where(record)}: column {name!r}: expected "
                    f"{describe_kind(kind)}, got {text[:_SHOWN]!r}; if that is right, "
                    f"say what the column is: dtypes={{{name!r}: str}}, or a wider number"
                )
        raise AssertionError("one text could not be parsed")

    def _blurred(self, record: int, text: str, name: str) -> DataError:
        """What to say of a whole number that would be rounded, or has no size."""
        kind = describe_kind(self._kinds[name])
        wider = f", torch.float64 is wider than {kind}" if kind == "float32" else ""
        return DataError(
            f"{self._index.where(record)}: column {name!r}: got {text[:_SHOWN]!r}, which "
            f"{kind} does not hold, and {kind} was chosen as the column has fractions or "
            "missing numbers: rounded, two ids would become one; say what the column is: "
            f"dtypes={{{name!r}: str}} keeps every digit{wider}, torch.{kind} rounds"
        )


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip("\r\n")
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")

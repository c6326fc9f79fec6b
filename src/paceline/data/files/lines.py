r"""Where each record of line files begins, so that any one can be read without the rest.

::

    file --one pass, in pieces--> offsets int64: [record 0, record 1, ..., end]
    records --offsets--> ranges of bytes --read_ranges--> bytes

An index costs 8 bytes a record, in memory only, and one pass over every file at the start
of each trainer. A line ends with ``\n`` or ``\r\n``, the last one also with the file; a
``\r`` alone ends nothing. A UTF-8 mark at the beginning of a file belongs to no record.

In CSV a line break in quotes ends no record. Where a piece of the file holds quotes,
Python's `csv` itself says where records end (some 3 us a row); elsewhere breaks are found
by NumPy, tens of times faster.

Waits: for storage. The trainer's own thread calls.
"""

import contextlib
import csv
import io
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from paceline.data.files.files import (
    DataFile,
    Offsets,
    Options,
    Paths,
    Ranges,
    describe_files,
    find_files,
    hash_ends,
    named,
    read_ranges,
    require_plain,
)
from paceline.errors import DataError

_PIECE_BYTES = 1 << 20
_UTF8_MARK = b"\xef\xbb\xbf"
# The longest field of a CSV file; one quote not closed is longer.
MAX_FIELD_BYTES = 16 << 20
_NEWLINE, _RETURN, _HASH = b"\n\r#"
_BLANKS = np.frombuffer(b" \t\r\v\f", np.uint8)
_NO_RECORD = re.compile(rb"[ \t\r\v\f]*(?:#|\n|\Z)")
_field_limit = threading.Lock()  # guards the limit of `csv`, one for the whole process

Bytes = NDArray[np.uint8]


class LineCut(NamedTuple):
    """What was found in a block of bytes that begins with a record."""

    starts: Offsets  # of whole records, from the block's beginning
    used: int  # bytes up to the end of the last whole record
    fault: str = ""  # why the record that begins there will never be whole


# (block, whether the file ends with it) -> its whole records
Cutter = Callable[[bytes, bool], LineCut]


@final
class LineIndex:
    """The records of files, in their order.

    ``offsets`` are of each file the beginning of every record and the end of the last.
    """

    def __init__(self, files: Sequence[DataFile], offsets: Sequence[Offsets]) -> None:
        self.files = tuple(files)
        self._offsets = np.concatenate(offsets)
        # The first record of each file; then how many there are.
        self._firsts = np.cumsum([0, *(len(each) - 1 for each in offsets)])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def read(self, records: Offsets) -> list[bytes]:
        """The bytes of records ``(n,)``, in this order, each up to the next record."""
        which = self._file_of(records)
        place = records + which  # each file before has one offset more than records
        ranges = Ranges(which, self._offsets[place], self._offsets[place + 1])
        return read_ranges(self.files, ranges)

    def describe(self) -> str:
        """Names and sizes of the files, a hash of their ends and of where records begin."""
        digest = hash_ends(self.files, self._offsets.tobytes())
        return f"{describe_files(self.files)}, xxh3 {digest}"

    def where(self, record: int) -> str:
        """File and line (from 1) where a record begins; reads the file up to there."""
        which = int(self._file_of(np.array([record]))[0])
        file = self.files[which]
        return f"{file.url}, line {_line_at(file, int(self._offsets[record + which]))}"

    def _file_of(self, records: Offsets) -> Offsets:
        return np.searchsorted(self._firsts, records, side="right") - 1


def open_lines(paths: Paths, options: Options | None, cut: Cutter) -> LineIndex:
    """The records of plain files.

    Raises:
        UsageError: a file is missing or packed, or a glob matches nothing.
        DataError: see `index_file`.
    """
    files = find_files(paths, options)
    require_plain(files)
    return LineIndex(files, [index_file(file, cut) for file in files])


def index_file(file: DataFile, cut: Cutter) -> Offsets:
    """Where each record of a file begins, and the end: int64 ``(records + 1,)``.

    Raises:
        DataError: the storage fails, or quotes are not closed or followed by text.
    """
    found: list[Offsets] = []
    rest, at = b"", 0
    for piece in _pieces(file):
        if at == 0 and piece.startswith(_UTF8_MARK):
            at, piece = len(_UTF8_MARK), piece[len(_UTF8_MARK) :]
        block = rest + piece
        starts, used, fault = cut(block, not piece)
        found.append(starts + at)
        at, rest = at + used, block[used:]
        if fault:
            raise DataError(
                f"{file.url}, line {_line_at(file, at)}: the row that begins here is no "
                f"CSV ({fault}); expected quotes around a whole field, those in it doubled"
            )
    return np.concatenate([*found, np.array([at])]).astype(np.int64, copy=False)


def cut_lines(block: bytes, is_last: bool) -> LineCut:
    """Every line is a record, empty ones too."""
    used = len(block) if is_last else block.rfind(b"\n") + 1
    breaks = np.flatnonzero(_bytes(block)[:used] == _NEWLINE) + 1
    starts = np.concatenate([np.zeros(min(used, 1), np.int64), breaks])
    return LineCut(starts[starts < used], used)


def cut_libsvm(block: bytes, is_last: bool) -> LineCut:
    """Lines but those of blanks, and remarks: ``#`` first, or behind blanks."""
    starts, used, _ = cut_lines(block, is_last)
    first = _bytes(block)[starts]
    is_record = (first != _HASH) & (first != _NEWLINE)
    for place in np.flatnonzero(is_record & np.isin(first, _BLANKS)).tolist():
        is_record[place] = _NO_RECORD.match(block, int(starts[place])) is None
    return LineCut(starts[is_record], used)


@contextlib.contextmanager
def long_fields() -> Iterator[None]:
    """Let `csv` read fields of up to 16 MiB meanwhile, quoted or not.

    Its limit (128 KiB) is one for the process: what the user has set is there again
    afterwards. One thread at a time.
    """
    with _field_limit:
        before = csv.field_size_limit(MAX_FIELD_BYTES)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def cut_csv(delimiter: str) -> Cutter:
    """Rows of CSV but empty ones; a row may go over lines if its breaks are quoted."""

    def cut(block: bytes, is_last: bool) -> LineCut:
        starts, used, fault = cut_lines(block, is_last)
        if b'"' in block[:used]:
            starts, used, fault = _cut_quoted(block[:used], is_last, delimiter)
        return LineCut(starts[~_is_empty(block, starts)], used, fault)

    return cut


def _cut_quoted(block: bytes, is_last: bool, delimiter: str) -> LineCut:
    """Let `csv` find the rows; one that the block ends within is left for the next."""
    at, is_over = 0, False

    def lines() -> Iterator[str]:
        nonlocal at, is_over
        for line in io.BytesIO(block):
            at += len(line)
            # Only ASCII matters here, and Latin-1 has a character for every byte.
            yield line.decode("latin-1")
        is_over = True

    starts, begin, fault = [], 0, ""
    try:
        with long_fields():
            for _ in csv.reader(lines(), delimiter=delimiter, strict=True):
                starts.append(begin)
                begin = at
    except csv.Error as error:
        if is_last or not is_over:
            fault = str(error)
    return LineCut(np.array(starts, np.int64), begin, fault)


def _is_empty(block: bytes, starts: Offsets) -> NDArray[np.bool_]:
    """Whether nothing stands before the break of the line that begins at each start."""
    data = _bytes(block)
    first = data[starts]
    second = data[np.minimum(starts + 1, len(data) - 1)] if len(data) else first
    empty: NDArray[np.bool_] = (first == _NEWLINE) | (
        (first == _RETURN) & (second == _NEWLINE)
    )
    return empty


def _bytes(block: bytes) -> Bytes:
    return np.frombuffer(block, np.uint8)


def _pieces(file: DataFile) -> Iterator[bytes]:
    """The file from its beginning; the last piece, and only that, is empty."""
    with named(file, "read it"), file.fs.open(file.path, "rb") as stream:
        while piece := stream.read(_PIECE_BYTES):
            yield piece
    yield b""


def _line_at(file: DataFile, offset: int) -> int:
    """Number, from 1, of the line that begins at an offset."""
    left, number = offset, 1
    for piece in _pieces(file):
        number += piece[:left].count(b"\n")
        left -= min(left, len(piece))
        if not left:
            break
    return number

"""An index finds every record of a line file, whatever ends its lines."""

import csv
import io
from collections.abc import Callable

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.data.files import lines
from paceline.data.files.files import find_files
from paceline.data.files.lines import (
    Cutter,
    LineIndex,
    cut_csv,
    cut_libsvm,
    cut_lines,
    index_file,
)
from paceline.errors import DataError

BREAKS = st.sampled_from(["\n", "\r\n"])
NO_BREAK = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=9)
FIELD = st.text(st.sampled_from('ab1é",; \n\r'), max_size=6)
PIECE_BYTES = st.integers(1, 40)
relaxed = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def indexed(
    memory: MemoryFileSystem, cut: Cutter, *contents: bytes, piece_bytes: int = 1 << 20
) -> LineIndex:
    for number, content in enumerate(contents):
        memory.pipe_file(f"/{number}", content)
    files = find_files([f"memory://{number}" for number in range(len(contents))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_PIECE_BYTES", piece_bytes)
        return LineIndex(files, [index_file(file, cut) for file in files])


def everything(index: LineIndex) -> list[bytes]:
    return index.read(np.arange(len(index)))


def quoted(field: str) -> str:
    return '"' + field.replace('"', '""') + '"'


@given(st.lists(st.tuples(NO_BREAK, BREAKS)), NO_BREAK, PIECE_BYTES, st.randoms())
@relaxed
def test_lines_in_any_order_are_the_file_from_the_start(
    memory: MemoryFileSystem,
    begun: list[tuple[str, str]],
    last: str,
    piece_bytes: int,
    order: object,
) -> None:
    content = ("".join(line + end for line, end in begun) + last).encode()
    index = indexed(memory, cut_lines, content, piece_bytes=piece_bytes)
    expected = list(io.BytesIO(content.removeprefix(b"\xef\xbb\xbf")))
    assert everything(index) == expected
    picked = list(range(len(expected)))
    order.shuffle(picked)  # type: ignore[attr-defined]
    assert index.read(np.array(picked, np.int64)) == [expected[record] for record in picked]


@given(
    st.lists(st.lists(FIELD, min_size=2, max_size=3)),
    BREAKS,
    st.booleans(),
    st.sampled_from(",;"),
    PIECE_BYTES,
)
@relaxed
def test_rows_are_those_that_csv_finds_from_the_start(
    memory: MemoryFileSystem,
    table: list[list[str]],
    end: str,
    is_ended: bool,
    delimiter: str,
    piece_bytes: int,
) -> None:
    # A field without quotes is written as it stands, so both ways of cutting are taken.
    plain = set(delimiter) | set('"\r\n')
    rows = [
        delimiter.join(quoted(field) if plain & set(field) else field for field in fields)
        for fields in table
    ]
    text = end.join(rows) + (end if is_ended else "")
    cut = cut_csv(delimiter)
    index = indexed(memory, cut, text.encode(), piece_bytes=piece_bytes)

    def parse(row: str) -> list[str]:
        return next(csv.reader(io.StringIO(row, newline=""), delimiter=delimiter))

    assert [parse(row.decode()) for row in everything(index)] == table


@pytest.mark.parametrize(
    ("cut", "content", "expected"),
    [
        (cut_lines, b"", []),
        (cut_lines, b"\n", [b"\n"]),
        (cut_lines, b"a\n\nb", [b"a\n", b"\n", b"b"]),
        (cut_lines, b"a\rb\r\nc", [b"a\rb\r\n", b"c"]),
        (cut_lines, b"\xef\xbb\xbfa\nb\n", [b"a\n", b"b\n"]),
        (cut_csv(","), b"\n\r\na\n\nb\n\n", [b"a\n\n", b"b\n\n"]),
        (cut_csv(","), b'a"b\n5" pipe\n', [b'a"b\n', b'5" pipe\n']),
        (cut_csv(","), b'"a\n\nb"\r\nc\n', [b'"a\n\nb"\r\n', b"c\n"]),
        (cut_csv(","), b'\xef\xbb\xbf"a\nb",1\n2', [b'"a\nb",1\n', b"2"]),
        (cut_libsvm, b"# head\n\n1 1:2\n# x\n\r\n-1\n", [b"1 1:2\n# x\n\r\n", b"-1\n"]),
        (cut_libsvm, b"  \n\t#x\n 1\n \n2\n  ", [b" 1\n \n", b"2\n  "]),
    ],
)
@pytest.mark.parametrize("piece_bytes", [4, 1 << 20])
def test_what_is_a_record(
    memory: MemoryFileSystem,
    cut: Cutter,
    content: bytes,
    expected: list[bytes],
    piece_bytes: int,
) -> None:
    index = indexed(memory, cut, content, piece_bytes=piece_bytes)
    assert everything(index) == expected


def test_records_go_on_from_file_to_file(memory: MemoryFileSystem) -> None:
    index = indexed(memory, cut_lines, b"a\nb\n", b"", b"c", b"", b"d\n")
    assert len(index) == 4
    assert index.read(np.array([3, 0, 2, 1, 3])) == [b"d\n", b"a\n", b"c", b"b\n", b"d\n"]
    assert index.where(2) == "memory:///2, line 1"


def test_an_index_is_eight_bytes_a_record(memory: MemoryFileSystem) -> None:
    index = indexed(memory, cut_lines, b"x\n" * 10_000)
    assert index._offsets.dtype == np.int64
    assert index._offsets.nbytes == 8 * 10_001


@pytest.mark.parametrize(
    ("cut", "record", "line"), [(cut_lines, 2, 3), (cut_csv(","), 1, 4)]
)
def test_a_record_knows_its_line(
    memory: MemoryFileSystem, cut: Cutter, record: int, line: int
) -> None:
    index = indexed(memory, cut, b'"a\n\nb"\nc\nd\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_PIECE_BYTES", 3)
        assert index.where(record) == f"memory:///0, line {line}"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'a\nb,"c\nd\ne\n', "line 2: .* no CSV .unexpected end of data"),
        (b'a\n"b\n\n"c,\nd\n', "line 2: .*expected quotes around a whole field"),
    ],
)
@pytest.mark.parametrize("piece_bytes", [4, 1 << 20])
def test_a_quote_that_is_wrong_is_refused_by_line(
    memory: MemoryFileSystem, content: bytes, text: str, piece_bytes: int
) -> None:
    with pytest.raises(DataError, match=f"memory:///0, {text}"):
        indexed(memory, cut_csv(","), content, piece_bytes=piece_bytes)


def test_a_file_that_cannot_be_read_is_named(
    memory: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Callable[[], None]:
        raise PermissionError("not yours")

    memory.pipe_file("/a", b"a\n")
    (file,) = find_files("memory://a")
    monkeypatch.setattr(memory, "open", refuse)
    with pytest.raises(DataError, match="memory:///a: cannot read it: PermissionError"):
        index_file(file, cut_lines)

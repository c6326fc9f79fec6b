"""Batches are read at once, and are what the records are one by one, to the bit."""

import csv
import io
import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from paceline.data import Csv, Libsvm
from paceline.errors import DataError, UsageError

relaxed = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
KINDS = (torch.int32, torch.int64, torch.float32, torch.float64, str)
NUMBERS = st.one_of(
    st.integers(-(2**66), 2**66).map(str),
    st.floats().map(repr),
    st.floats(width=32).map("{:.6g}".format),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(r"\A[+-]?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,3})?\Z"),
)
ODD = st.sampled_from(
    [
        *("", " ", "1_0", "\u0663", "x", "nan", "-nan", "NaN", "inf", "-Infinity", "1e400"),
        *("nan(1)", "0x1", "1j", "1e", "+-1", "1-2", " 1", "2 ", "1\t", "\x0b1", "1\x1c"),
        *("1\x00", "1\x85", "\u20071", "1.", ".5", ".", "+", "1.0", "16777217", "-0", "'"),
        *('"', '"1"', '"1,2"', '"a\n2"', '""""', "1\r2", "1,2", "#", "\\", "9" * 400),
    ]
)
FIELDS = st.one_of(NUMBERS, NUMBERS, ODD)
ROWS = st.one_of(
    st.lists(FIELDS, min_size=2, max_size=2), st.lists(FIELDS, min_size=1, max_size=3)
)
GAPS = st.sampled_from(["", "", "", "\n", "\r\n"])  # lines without a record
BREAKS = st.sampled_from(["\n", "\r\n"])


def bits_of(batch: dict[str, object] | tuple[torch.Tensor, ...]) -> list[object]:
    """Columns by their bytes: NaN is equal to itself, and 0 is not -0."""
    columns = batch.values() if isinstance(batch, dict) else batch
    return [
        (column.dtype, column.shape, column.numpy().tobytes())
        if isinstance(column, torch.Tensor)
        else column
        for column in columns
    ]


def read(source: Csv | Libsvm, records: np.ndarray) -> list[object] | str:
    """What a batch is, or why there is none."""
    try:
        return bits_of(source.read(records))
    except DataError as error:
        return str(error)


@pytest.mark.slow
@given(
    st.lists(st.tuples(ROWS, GAPS), min_size=1, max_size=4),
    st.lists(st.sampled_from(KINDS), min_size=2, max_size=2),
    BREAKS,
    st.sampled_from(",;\t _1"),
)
@relaxed
def test_csv_at_once_says_what_it_says_field_by_field(
    memory: MemoryFileSystem,
    table: list[tuple[list[str], str]],
    kinds: list[object],
    end: str,
    delimiter: str,
) -> None:
    lines = (delimiter.join(fields) + end + gap for fields, gap in table)
    memory.pipe_file("/a.csv", "".join(lines).encode())
    names = ["a", "b"]
    options = {"names": names, "delimiter": delimiter}
    dtypes = dict(zip(names, kinds, strict=True))
    try:
        quick = Csv("memory://a.csv", dtypes=dtypes, **options)
    except (DataError, UsageError):
        return  # quotes that are not closed, or no row
    careful = Csv("memory://a.csv", dtypes=dtypes, **options)
    careful._at_once = lambda _: None
    everything = np.arange(len(quick))
    assert read(quick, everything) == read(careful, everything)
    for record in everything:
        assert read(quick, np.array([record])) == read(careful, np.array([record]))


@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1), st.booleans())
@relaxed
def test_numbers_of_csv_are_those_that_python_reads(
    memory: MemoryFileSystem, table: list[list[str]], is_quoted: bool
) -> None:
    text = io.StringIO()
    quoting = csv.QUOTE_ALL if is_quoted else csv.QUOTE_MINIMAL
    csv.writer(text, quoting=quoting, lineterminator="\n").writerows(table)
    memory.pipe_file("/a.csv", text.getvalue().encode())
    names, kinds = ["a", "b", "c"], [torch.float32, torch.float64, str]
    dtypes = dict(zip(names, kinds, strict=True))
    batch = Csv("memory://a.csv", names=names, dtypes=dtypes).read(np.arange(len(table)))
    a, b, c = zip(*table, strict=True)
    expected = {
        "a": torch.tensor([float(text) for text in a], dtype=torch.float32),
        "b": torch.tensor([float(text) for text in b], dtype=torch.float64),
        "c": list(c),
    }
    assert bits_of(batch) == bits_of(expected)


def test_a_plain_table_is_read_at_once(memory: MemoryFileSystem) -> None:
    memory.pipe_file("/a.csv", b"a,b,c\n1,0.5,x\n2,1.5,y z\n\n3,-1e-3,\n")
    source = Csv("memory://a.csv")
    source._fields = None  # what looks field by field
    batch = source.read(np.array([1, 0]))
    assert batch["a"].tolist() == [2, 1]
    assert batch["b"].tolist() == [1.5, 0.5]
    assert batch["c"] == ["y z", "x"]


def test_an_id_that_would_be_rounded_is_refused_at_once_too(
    memory: MemoryFileSystem,
) -> None:
    rows = "".join(f"{number}.5\n" for number in range(1000))
    memory.pipe_file("/a.csv", f"x\n{rows}1.5\n16777217\nnan\n".encode())
    source = Csv("memory://a.csv")
    expected = r"a.csv, line 1003: column 'x': got '16777217', which float32 does not hold"
    with pytest.raises(DataError, match=expected):
        source.read(np.array([1002, 1001, 1000]))


def lines_of(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines with a record, their numbers, and without what is behind ``#``."""
    for number, line in enumerate(content.split(b"\n"), 1):
        text = line.partition(b"#")[0].strip()
        if text or line.lstrip()[:1] not in (b"", b"#"):
            yield number, text


def parse_line(text: bytes) -> tuple[list[int], list[float], float] | None:
    """One line as the format has it; None if it is malformed."""
    label, *pairs = text.split() or [b""]
    if b"_" in text or b":" in label:
        return None
    try:
        matches = [re.fullmatch(rb"([0-9]+):([^:]+)", pair) for pair in pairs]
        if not all(matches):
            return None
        ids = [int(match[1]) for match in matches]
        values = [float(match[2]) for match in matches]
        return (ids, values, float(label)) if max(ids, default=0) < 2**63 else None
    except ValueError:
        return None


IDS = st.one_of(st.integers(0, 2**64).map(str), st.from_regex(r"\A[0-9]{1,4}\Z"))
PAIRS = st.one_of(
    st.tuples(IDS, NUMBERS).map(":".join),
    st.tuples(IDS, NUMBERS).map(":".join),
    st.tuples(st.one_of(IDS, ODD), st.one_of(NUMBERS, ODD)).map(":".join),
)
BLANKS = st.sampled_from([" ", "  ", "\t", "\x0b", " \x0c ", "\r"])
LINE = st.builds(
    lambda label, pairs, blank, last: blank.join([label, *pairs]) + last,
    st.one_of(NUMBERS, NUMBERS, ODD),
    st.lists(PAIRS, max_size=4),
    BLANKS,
    st.sampled_from(["", "", " ", "\r", " # x 1:2", "#"]),
)


@pytest.mark.slow
@given(st.lists(LINE, min_size=1).map("\n".join), st.sampled_from(["", "\n"]))
@example("1 1:1\n2:1 3:1", "\n")
@example("1 1:1\n\n2", "")
@relaxed
def test_libsvm_at_once_is_its_lines_one_by_one(
    memory: MemoryFileSystem, text: str, end: str
) -> None:
    content = (text + end).encode()
    found = [(number, parse_line(line)) for number, line in lines_of(content)]
    if not found:
        return
    memory.pipe_file("/a.svm", content)
    source = Libsvm("memory://a.svm")
    assert len(source) == len(found)
    wrong = [number for number, parsed in found if parsed is None]
    got = read(source, np.arange(len(found)))
    if wrong:
        assert f"a.svm, line {wrong[0]}: expected 'label id:value ...', got " in got
        return
    ids, values, labels = zip(*(parsed for _, parsed in found), strict=True)
    assert got == bits_of(
        (
            torch.tensor([number for row in ids for number in row], dtype=torch.int64),
            torch.tensor([value for row in values for value in row], dtype=torch.float32),
            torch.tensor(np.cumsum([0, *map(len, ids)])[:-1], dtype=torch.int64),
            torch.tensor(labels, dtype=torch.float32),
        )
    )

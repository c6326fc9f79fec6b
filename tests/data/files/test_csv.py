"""Rows of CSV become columns, each of one dtype for the whole file."""

import csv as standard_csv
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from torch.utils.data import Subset

from paceline.data import Csv
from paceline.data.files import csv, lines
from paceline.data.opening import open_source
from paceline.errors import DataError, UsageError

TABLE = 'id,name,price\n1,a,0.5\n2,"b, ""c""\nd",\n3,,2\n'
PICKED = np.array([2, 0, 1, 2])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text(TABLE)
    return tmp_path / "a.csv"


def write(folder: Path, *tables: str) -> str:
    for number, table in enumerate(tables):
        (folder / f"{number}.csv").write_text(table)
    return f"{folder}/*.csv"


def test_a_batch_is_columns_of_one_dtype_each(path: Path) -> None:
    batch = Csv(path).batch(PICKED)
    assert list(batch) == ["id", "name", "price"]
    assert (batch["id"].dtype, batch["id"].tolist()) == (torch.int64, [3, 1, 2, 3])
    assert batch["name"] == ["", "a", 'b, "c"\nd', ""]
    assert batch["price"].dtype == torch.float32
    assert [str(value) for value in batch["price"].tolist()] == ["2.0", "0.5", "nan", "2.0"]


def test_columns_and_dtypes_are_chosen(path: Path) -> None:
    dtypes = {"id": str, "price": torch.float64}
    batch = Csv(path, columns=["price", "id"], dtypes=dtypes).batch(np.array([0]))
    assert list(batch) == ["price", "id"]
    assert batch["price"].dtype == torch.float64
    assert batch["id"] == ["1"]


def test_files_without_a_header_get_names(memory: MemoryFileSystem) -> None:
    memory.pipe_file("/a.tsv", b"1\tx\n2\ty\n")
    source = Csv("memory://a.tsv", names=["n", "t"], delimiter="\t")
    batch = source.batch(np.array([1, 0]))
    assert (batch["n"].tolist(), batch["t"]) == ([2, 1], ["y", "x"])


def test_records_go_on_over_files_and_empty_ones_are_skipped(tmp_path: Path) -> None:
    source = Csv(write(tmp_path, "", "x\n1\n2\n", "x\n", "x\n3\n"))
    assert len(source) == 3
    assert source.batch(np.arange(3))["x"].tolist() == [1, 2, 3]


def test_a_transform_makes_the_batch(path: Path) -> None:
    source = Csv(path, columns=["id"], transform=lambda batch: batch["id"] * 2)
    assert open_source(source).batch(PICKED).tolist() == [6, 2, 4, 6]
    with pytest.raises(UsageError, match=r"Csv has a transform.* give one of the two"):
        open_source(source, collate_fn=list)
    with pytest.raises(UsageError, match="a transform takes whole batches"):
        source[0]


def test_a_source_is_a_map_style_data_set_too(path: Path) -> None:
    source = Csv(path)
    assert source[-1] == {"id": torch.tensor(3), "name": "", "price": torch.tensor(2.0)}
    assert [record["id"] for record in source] == [1, 2, 3]
    batch = open_source(Subset(source, [2, 1])).batch(np.array([1, 0]))
    assert batch["id"].tolist() == [2, 3]
    assert math.isnan(batch["price"][0])
    with pytest.raises(IndexError, match="record 3 of 3"):
        source[3]


def test_a_collate_function_gets_single_records(path: Path) -> None:
    source = open_source(Csv(path), collate_fn=lambda rows: [row["name"] for row in rows])
    assert source.batch(PICKED) == ["", "a", 'b, "c"\nd', ""]
    assert source.fingerprint() == Csv(path).fingerprint()


def test_a_fingerprint_tells_files_columns_and_records(path: Path) -> None:
    told = Csv(path).fingerprint()
    files = rf"a.csv {path.stat().st_size} bytes, xxh3 [0-9a-f]{{16}}"
    columns = "{id: int64, name: str, price: float32}"
    assert re.fullmatch(f"Csv {files} {columns} x 3", told)
    assert Csv(path, columns=["id", "price"]).fingerprint() != told
    assert Csv(path, dtypes={"id": str}).fingerprint() != told


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("x,y\n1,2\n3\n", r"line 3: expected 2 fields \(x, y\), got 1: '3'"),
        ("x,y\n1,2\n3,4,5\n", "line 3: expected 2 fields .*got 3: '3,4,5'"),
        ("x,y\n1,2\n3,4\r5\n", "line 3: expected a row of CSV in UTF-8, got '3,4"),
    ],
)
def test_a_malformed_row_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, text: str
) -> None:
    monkeypatch.setattr(csv, "_NUM_LOOKED_AT", 1)
    (tmp_path / "0.csv").write_bytes(table.encode())
    source = Csv(tmp_path / "0.csv")
    with pytest.raises(DataError, match=f"0.csv, {text}"):
        source.batch(np.array([0, 1]))


def test_a_field_of_another_dtype_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "_NUM_LOOKED_AT", 2)
    source = Csv(write(tmp_path, "x\n1\n2\n3.5\n"))
    expected = (
        r"0.csv, line 4: column 'x': expected int64, got '3.5'; .*dtypes=\{'x': str\}"
    )
    with pytest.raises(DataError, match=expected):
        source.batch(np.array([1, 2]))


@pytest.mark.parametrize(
    ("tables", "options", "text"),
    [
        (["x\n1\n"], {"columns": ["y"]}, "0.csv: there is no column 'y' among x"),
        (["x\n1\n"], {"columns": "x"}, "expected a list of names, got the text 'x'"),
        (["x\n1\n"], {"columns": []}, "expected at least one name"),
        (["x\n1\n"], {"columns": ["x", "x"]}, "columns: column x is there twice"),
        (["x,x\n1,2\n"], {}, "0.csv: column x is there twice"),
        (["x\n1\n", "y\n1\n"], {}, "1.csv begins with columns y, but .*0.csv with x"),
        (["x\n1\n"], {"dtypes": {"y": str}}, "dtypes: there is no column 'y' among x"),
        (["x\n1\n"], {"dtypes": {"x": int}}, "expected int32, int64, .* got <class 'int'>"),
        (["x\n1\n"], {"delimiter": "||"}, "one ASCII character as delimiter, got '..'"),
        (["x\n"], {}, "Csv: no record in 0.csv 2 bytes"),
        ([""], {}, "Csv: no record in 0.csv 0 bytes"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, tables: list[str], options: dict[str, object], text: str
) -> None:
    with pytest.raises(UsageError, match=text):
        Csv(write(tmp_path, *tables), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ids",
    [
        ("-99999999999999999999", "-99999999999999999998"),
        ("99999999999999999999", "99999999999999999998"),
    ],
)
def test_ids_beyond_int64_stay_apart_as_text(tmp_path: Path, ids: tuple[str, ...]) -> None:
    source = Csv(write(tmp_path, "id\n" + "\n".join(ids) + "\n"))
    assert source.batch(np.arange(2))["id"] == list(ids)


def test_ids_of_which_one_is_missing_do_not_become_one(tmp_path: Path) -> None:
    path = write(tmp_path, "user,x\n9007199254740992,1\n9007199254740993,2\n,3\n")
    expected = (
        r"0.csv, line 3: column 'user': got '9007199254740993', which float64 does not "
        r"hold.* two ids would become one; .*dtypes=\{'user': str\} keeps every digit"
    )
    with pytest.raises(DataError, match=expected):
        Csv(path)
    kept = Csv(path, dtypes={"user": str}).batch(np.arange(3))
    assert kept["user"] == ["9007199254740992", "9007199254740993", ""]
    rounded = Csv(path, dtypes={"user": torch.float64}).batch(np.arange(2))
    assert rounded["user"].tolist() == [9007199254740992] * 2


def test_a_later_id_is_not_rounded_to_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "_NUM_LOOKED_AT", 2)
    path = write(tmp_path, "x\n1.0\n2.0\n16777217.0\n")
    with pytest.raises(DataError, match=r"line 4: column 'x': .*torch.float64 is wider"):
        Csv(path).batch(np.arange(3))
    asked = Csv(path, dtypes={"x": torch.float32}).batch(np.arange(3))
    assert asked["x"].tolist() == [1, 2, 16777216]


@pytest.mark.parametrize("quote", ["", '"'])
def test_long_fields_are_read_quoted_or_not(tmp_path: Path, quote: str) -> None:
    text = "x" * 200_000
    before = standard_csv.field_size_limit()
    source = Csv(write(tmp_path, f"a,b\n1,{quote}{text}{quote}\n2,y\n"))
    assert source.batch(np.arange(2))["b"] == [text, "y"]
    assert standard_csv.field_size_limit() == before


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_field_that_is_too_long_is_refused_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quote: str
) -> None:
    monkeypatch.setattr(lines, "MAX_FIELD_BYTES", 50)
    path = write(tmp_path, f"a,b\n1,{quote}{'x' * 60}{quote}\n")
    with pytest.raises(DataError, match=r"0.csv, line 2: .*larger than field limit \(50\)"):
        Csv(path)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_marks_and_ends_of_lines_belong_to_no_field(
    tmp_path: Path, mark: str, end: str
) -> None:
    content = end.join([mark + "a,b", "1,x", "", "2,y", ""])
    (tmp_path / "0.csv").write_bytes(content.encode())
    batch = Csv(tmp_path / "0.csv").batch(np.arange(2))
    assert (batch["a"].tolist(), batch["b"]) == ([1, 2], ["x", "y"])


def test_delimiters_at_the_end_are_an_unnamed_column(tmp_path: Path) -> None:
    batch = Csv(write(tmp_path, "a,\n1,\n2,\n")).batch(np.arange(2))
    assert (batch["a"].tolist(), batch[""]) == ([1, 2], ["", ""])
    (tmp_path / "0.csv").write_text("a,b\n1,2,\n")
    with pytest.raises(DataError, match=r"line 2: expected 2 fields \(a, b\), got 3"):
        Csv(tmp_path / "0.csv")

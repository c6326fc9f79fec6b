"""Row groups are decoded as few times as the bound on memory allows."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem

from paceline.data import Parquet
from paceline.data.opening import open_source
from paceline.errors import DataError, UsageError

pa = pytest.importorskip("pyarrow", reason="needs paceline[parquet]")
pq = pytest.importorskip("pyarrow.parquet", reason="needs paceline[parquet]")

pytestmark = pytest.mark.around

PICKED = np.array([6, 0, 5, 6, 2])


def numbers(first: int, stop: int) -> Any:
    ids = list(range(first, stop))
    return pa.table({"id": ids, "name": [f"n{number}" for number in ids]})


@pytest.fixture
def paths(tmp_path: Path) -> str:
    """Seven records in two files, in row groups of 2, 2 and 2, 1."""
    pq.write_table(numbers(0, 4), tmp_path / "a.parquet", row_group_size=2)
    pq.write_table(numbers(4, 7), tmp_path / "b.parquet", row_group_size=2)
    return f"{tmp_path}/*.parquet"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often the row group of each number was decoded, over all files."""
    counts: Counter[int] = Counter()
    read = pq.ParquetFile.read_row_group

    def spy(self: Any, number: int, **options: Any) -> Any:
        counts[number] += 1
        return read(self, number, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", spy)
    return counts


def test_records_in_any_order_are_those_of_the_files(paths: str) -> None:
    source = Parquet(paths)
    assert len(source) == 7
    batch = source.batch(PICKED)
    assert (batch["id"].dtype, batch["id"].tolist()) == (torch.int64, PICKED.tolist())
    assert batch["name"] == ["n6", "n0", "n5", "n6", "n2"]


def test_columns_are_chosen_in_order(paths: str) -> None:
    assert list(Parquet(paths, columns=["name", "id"]).batch(PICKED)) == ["name", "id"]
    assert list(Parquet(paths, columns=["name"]).batch(PICKED)) == ["name"]


def test_other_file_systems_are_read(memory: MemoryFileSystem) -> None:
    with memory.open("/in/a.parquet", "wb") as file:
        pq.write_table(numbers(0, 5), file, row_group_size=2)
    source = Parquet("memory://in/a.parquet")
    assert source.batch(np.array([4, 1]))["id"].tolist() == [4, 1]


def test_each_column_has_the_dtype_of_the_file(tmp_path: Path) -> None:
    columns = {
        "flag": pa.array([True, False]),
        "small": pa.array([1, 2], pa.int8()),
        "unsigned": pa.array([1, 65535], pa.uint16()),
        "fraction": pa.array([0.5, None], pa.float32()),
        "double": pa.array([0.5, 1.5], pa.float64()),
        "vector": pa.array([[1, 2, 3], [4, 5, 6]], pa.list_(pa.float32(), 3)),
        "text": pa.array(["a", None]),
        "word": pa.array(["x", "y"]).dictionary_encode(),
        "many": pa.array([[1], [2, 3]]),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    batch = Parquet(tmp_path / "a.parquet").batch(np.array([1, 0]))
    dtypes = {
        name: column.dtype
        for name, column in batch.items()
        if isinstance(column, torch.Tensor)
    }
    assert dtypes == {
        "flag": torch.bool,
        "small": torch.int8,
        "unsigned": torch.int32,
        "fraction": torch.float32,
        "double": torch.float64,
        "vector": torch.float32,
    }
    assert batch["unsigned"].tolist() == [65535, 1]
    assert str(batch["fraction"].tolist()) == "[nan, 0.5]"
    assert batch["vector"].tolist() == [[4, 5, 6], [1, 2, 3]]
    assert batch["text"] == [None, "a"]
    assert batch["word"] == ["y", "x"]
    assert batch["many"] == [[2, 3], [1]]


def test_a_batch_is_the_callers_own(paths: str) -> None:
    source = Parquet(paths)
    source.batch(PICKED)["id"].add_(100)
    assert source.batch(PICKED)["id"].tolist() == PICKED.tolist()


def test_a_row_group_is_decoded_once_while_it_is_kept(
    paths: str, decoded: Counter[int]
) -> None:
    source = Parquet(paths)
    for _ in range(3):
        source.batch(PICKED)
    assert decoded == {0: 2, 1: 2}  # once in each of the two files


def test_what_is_beyond_the_bound_is_decoded_again(
    paths: str, decoded: Counter[int]
) -> None:
    source = Parquet(paths, columns=["id"], cache_bytes=40)  # two, not three
    source.batch(np.array([0, 2]))
    source.batch(np.array([0]))
    assert decoded == {0: 1, 1: 1}
    source.batch(np.array([4]))  # the first of b: a's second was used longest ago
    source.batch(np.array([0]))
    assert decoded == {0: 2, 1: 1}
    source.batch(np.array([2]))
    assert decoded == {0: 2, 1: 2}


def test_without_a_cache_a_batch_still_decodes_a_row_group_once(
    paths: str, decoded: Counter[int]
) -> None:
    source = Parquet(paths, cache_bytes=0)
    assert source.batch(np.array([3, 0, 2, 1, 3]))["id"].tolist() == [3, 0, 2, 1, 3]
    assert decoded == {0: 1, 1: 1}


def test_a_transform_or_a_collate_function_makes_the_batch(paths: str) -> None:
    doubled = Parquet(paths, transform=lambda batch: batch["id"] * 2)
    assert open_source(doubled).batch(PICKED).tolist() == [12, 0, 10, 12, 4]
    single = open_source(Parquet(paths), collate_fn=lambda rows: rows[1])
    assert single.batch(PICKED) == {"id": torch.tensor(0), "name": "n0"}


def test_a_fingerprint_tells_files_columns_and_records(paths: str, tmp_path: Path) -> None:
    told = Parquet(paths).fingerprint()
    assert "{id: int64, name: string} x 7" in told
    assert "a.parquet" in told
    assert str(tmp_path) not in told
    assert Parquet(paths, columns=["id"]).fingerprint() != told


def test_a_fingerprint_tells_equal_sizes_with_other_values(tmp_path: Path) -> None:
    told = []
    for number in (0, 1):
        path = tmp_path / str(number) / "a.parquet"
        path.parent.mkdir()
        ids = pa.array([number, 7, 8], pa.int64())
        pq.write_table(pa.table({"id": ids}), path, compression="none")
        told.append((path.stat().st_size, Parquet(path).fingerprint()))
    assert told[0][0] == told[1][0]
    assert told[0][1] != told[1][1]


def test_a_file_of_another_type_is_named(paths: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["x"], "name": ["y"]}), tmp_path / "c.parquet")
    text = "c.parquet: column 'id' is string, but int64 in .*a.parquet"
    with pytest.raises(UsageError, match=text):
        Parquet(paths)


def test_a_column_that_is_not_there_is_refused(paths: str, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"a.parquet: there is no column 'x' among id, name"
    ):
        Parquet(paths, columns=["x"])
    pq.write_table(pa.table({"id": [1]}), tmp_path / "c.parquet")
    with pytest.raises(UsageError, match=r"c.parquet: there is no column 'name' among id"):
        Parquet(paths)


def test_a_missing_whole_number_is_refused_by_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, None]}), tmp_path / "a.parquet")
    text = "a.parquet: column 'id': expected int64 in every row, 1 are missing"
    with pytest.raises(DataError, match=text):
        Parquet(tmp_path / "a.parquet").batch(np.array([0]))


def test_what_is_no_parquet_is_named(tmp_path: Path) -> None:
    for content in (b"", b"id,name\n1,a\n"):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(DataError, match=r"a.parquet: cannot read its Parquet footer"):
            Parquet(tmp_path / "a.parquet")


def test_a_file_that_is_damaged_names_its_row_group(paths: str, tmp_path: Path) -> None:
    source = Parquet(paths)
    path = tmp_path / "b.parquet"
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(DataError, match=r"b.parquet: cannot read row group 1"):
        source.batch(np.array([6]))


def test_files_without_a_record_are_skipped_or_refused(tmp_path: Path) -> None:
    pq.write_table(numbers(0, 2).slice(0, 0), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match=r"Parquet: no record in a.parquet"):
        Parquet(f"{tmp_path}/*.parquet")
    pq.write_table(numbers(0, 2), tmp_path / "b.parquet")
    assert Parquet(f"{tmp_path}/*.parquet").batch(np.array([1]))["id"].tolist() == [1]


def test_without_pyarrow_it_says_what_to_install(
    paths: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UsageError, match=r"pip install 'paceline\[parquet\]'"):
        Parquet(paths)

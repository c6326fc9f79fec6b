"""A subset of any data set has its records, whoever reads them, and tells which."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset, random_split

from paceline.data import Csv, Libsvm, Parquet, Text
from paceline.data.map_style import PickedSource
from paceline.data.opening import open_source
from paceline.errors import DataError, UsageError

SIZE = 6
CHOSEN = [5, 1, 1, -2]
PICKED = np.array([3, 0, 2])  # of the chosen: records 4, 5, 1


class Squares(Dataset):
    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> dict[str, object]:
        if index == 0:
            raise OSError("bad sector")
        return {"x": torch.tensor([index]), "name": f"n{index}"}


def lines_of(folder: Path, name: str, lines: list[str]) -> Path:
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def csv(folder: Path) -> Csv:
    rows = [f"{n},t{n}" for n in range(SIZE)]
    return Csv(lines_of(folder, "a.csv", ["x,name", *rows]))


def libsvm(folder: Path) -> Libsvm:
    rows = [" ".join([str(n), *(f"{i}:{n}" for i in range(n))]) for n in range(SIZE)]
    return Libsvm(lines_of(folder, "a.svm", rows))


def text(folder: Path) -> Text:
    return Text(lines_of(folder, "a.txt", [f"t{n}" for n in range(SIZE)]))


def parquet(folder: Path) -> Parquet:
    names = [None if n == 1 else f"t{n}" for n in range(SIZE)]
    pq.write_table(pa.table({"x": range(SIZE), "name": names}), folder / "a.parquet")
    return Parquet(folder / "a.parquet")


def tensors(_: Path) -> TensorDataset:
    return TensorDataset(torch.arange(SIZE), torch.arange(SIZE) * 2)


def columns(_: Path) -> dict[str, torch.Tensor]:
    return {"x": torch.arange(SIZE)}


Make = Callable[[Path], Any]
SOURCES = [csv, libsvm, text, parquet]


def same(mine: object, other: object) -> bool:
    if isinstance(mine, torch.Tensor):
        assert isinstance(other, torch.Tensor)
        return mine.dtype == other.dtype and torch.equal(mine, other)
    if isinstance(mine, dict):
        assert isinstance(other, dict)
        return mine.keys() == other.keys() and all(same(mine[k], other[k]) for k in mine)
    if isinstance(mine, tuple):
        assert isinstance(other, tuple)
        return all(map(same, mine, other))
    return mine == other


@pytest.mark.parametrize("make", [*SOURCES, tensors, columns])
def test_a_subset_is_read_as_its_source(tmp_path: Path, make: Make) -> None:
    whole = make(tmp_path)
    opened = open_source(Subset(whole, CHOSEN))
    assert isinstance(opened, PickedSource)
    assert len(opened) == 4
    expected = open_source(whole).batch(np.array([4, 5, 1]))
    assert same(opened.batch(PICKED), expected)
    nested = open_source(Subset(Subset(whole, range(SIZE)), CHOSEN))
    assert same(nested.batch(PICKED), expected)


@pytest.mark.parametrize("make", [*SOURCES, tensors])
def test_the_parts_of_a_split_are_the_whole(tmp_path: Path, make: Make) -> None:
    whole = make(tmp_path)
    parts = random_split(whole, [4, 2], torch.Generator().manual_seed(0))
    for part in parts:
        expected = open_source(whole).batch(np.array(part.indices))
        assert same(open_source(part).batch(np.arange(len(part))), expected)
    left, right = (open_source(part).fingerprint() for part in parts)
    assert left != right


@pytest.mark.parametrize("make", [*SOURCES, tensors, lambda _: Squares()])
def test_a_fingerprint_tells_the_indices_and_what_lies_below(
    tmp_path: Path, make: Make
) -> None:
    whole = make(tmp_path)

    def told(indices: list[int]) -> str:
        return open_source(Subset(whole, indices)).fingerprint()

    assert told([1, 2]) == told([1, 2])
    assert told([1, 2]) != told([1, 3])
    assert told([1, 2]).startswith("Subset of (")
    with_collate = open_source(Subset(whole, [1, 2]), collate_fn=list)
    assert "indices xxh3" in with_collate.fingerprint()


def test_a_subset_of_any_data_set_leaves_out_what_it_does_not_name() -> None:
    opened = open_source(Subset(Squares(), [3, 2, 1]))
    assert opened.batch(np.array([2, 0]))["x"].tolist() == [[1], [3]]
    assert "Squares {x: int64[1], name: str} x 6" in opened.fingerprint()
    with pytest.raises(OSError, match="bad sector") as caught:
        open_source(Subset(Squares(), [3, 0])).batch(np.array([0, 1]))
    assert caught.value.__notes__ == ["reading record 0 of Squares"]


def test_a_collate_function_gets_the_records_of_a_subset(tmp_path: Path) -> None:
    opened = open_source(Subset(csv(tmp_path), CHOSEN), collate_fn=list)
    assert [row["name"] for row in opened.batch(PICKED)] == ["t4", "t5", "t1"]
    rows = open_source(Subset(columns(tmp_path), CHOSEN), collate_fn=list)
    assert [int(row["x"]) for row in rows.batch(PICKED)] == [4, 5, 1]


def test_a_transform_gets_the_batch_of_a_subset(tmp_path: Path) -> None:
    whole = Csv(csv(tmp_path)._index.files[0].url, transform=lambda batch: batch["x"] * 2)
    assert open_source(Subset(whole, CHOSEN)).batch(PICKED).tolist() == [8, 10, 2]
    with pytest.raises(UsageError, match="has a transform"):
        open_source(Subset(whole, CHOSEN), collate_fn=list)


@pytest.mark.parametrize(
    ("indices", "text"),
    [
        ([0, 6], "the Subset has index 6, its data set 6 records"),
        ([-7], "the Subset has index -7"),
        ([True, False], r"whole numbers, got bool; of a mask take mask.nonzero\(\)"),
        ([0.5], "got float64"),
        ([], "empty"),
    ],
)
def test_indices_that_cannot_be_are_refused(indices: list[int], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        open_source(Subset(torch.arange(6), indices))


@pytest.mark.parametrize("make", SOURCES)
def test_a_chain_of_sources_is_read_as_one(tmp_path: Path, make: Make) -> None:
    whole = make(tmp_path)
    opened = open_source(ConcatDataset([whole, Subset(whole, [2, 3])]))
    assert len(opened) == 8
    picked = np.array([7, 0, 6, 5, 7])
    assert same(opened.batch(picked), open_source(whole).batch(np.array([3, 0, 2, 5, 3])))
    assert opened.fingerprint() != open_source(ConcatDataset([whole, whole])).fingerprint()
    part = open_source(Subset(ConcatDataset([whole, whole]), [-1, 0]))
    assert same(part.batch(np.arange(2)), open_source(whole).batch(np.array([5, 0])))


def test_a_chain_of_other_data_sets_is_collated_as_torch_does() -> None:
    opened = open_source(ConcatDataset([Subset(Squares(), [1, 2]), Subset(Squares(), [3])]))
    assert opened.batch(np.array([2, 0]))["x"].tolist() == [[3], [1]]


def test_chains_that_cannot_be_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="of one kind, got one of Csv, Text"):
        open_source(ConcatDataset([csv(tmp_path), text(tmp_path)]))
    other = Csv(lines_of(tmp_path, "b.csv", ["x,name", "0.5,t"]))
    opened = open_source(ConcatDataset([csv(tmp_path), other]))
    with pytest.raises(DataError, match="column 'x' is float32 here and int64 there"):
        opened.batch(np.array([0, SIZE]))
    changed = Csv(tmp_path / "b.csv", transform=len)
    with pytest.raises(UsageError, match="give Csv all paths as one list"):
        open_source(ConcatDataset([changed, changed]))

"""What looks like a data set is refused with what to give instead, or is read."""

from collections import UserDict
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from paceline.data.opening import open_source
from paceline.errors import UsageError

X, Y = torch.arange(12.0).reshape(6, 2), torch.arange(6)
PICKED = np.array([3, 0, 3])


def of_library(name: str, **attributes: object) -> object:
    """An object as a library that is not installed would make it."""
    module = ModuleType(name)
    kind = type("DataFrame", (), {"__module__": module.__name__, **attributes})
    return kind()


def test_a_loader_is_refused_with_its_data_set() -> None:
    pairs = list(zip(X, Y, strict=True))
    hint = r"give its data set: .*batches\(loader.dataset, batch_size=2, shuffle=False\)$"
    with pytest.raises(UsageError, match=hint):
        open_source(DataLoader(pairs, batch_size=2))
    hint = r"\(loader.dataset, batch_size=3, collate_fn=loader.collate_fn, workers=2\)$"
    loader = DataLoader(pairs, 3, shuffle=True, collate_fn=list, num_workers=2)
    with pytest.raises(UsageError, match=hint):
        open_source(loader)
    sampler = BatchSampler(SequentialSampler(pairs), 2, drop_last=True)
    with pytest.raises(UsageError, match=r"batch_size=...\); its BatchSampler is left out"):
        open_source(DataLoader(pairs, batch_sampler=sampler))


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        (
            of_library("pandas.core.frame", columns=["a", "b"], __len__=lambda _: 3),
            r"DataFrame of pandas .*frame\[name\].to_numpy\(\) for name in \['a', 'b'\]\}",
        ),
        (of_library("pyarrow.lib", column_names=["a"]), r"for name in \['a'\]"),
        (of_library("pandas.core.series"), r"give its array: it.to_numpy\(\)"),
        (of_library("scipy.sparse._csr"), "of scipy .*paceline.data.Libsvm"),
        (of_library("datasets.iterable_dataset"), "load it without streaming=True"),
        ("days.csv", r"give what reads that file: paceline.data.Csv\('days.csv'\)"),
        (Path("a/b.parquet"), r"paceline.data.Parquet\('a/b.parquet'\)"),
        ("days", "paceline.data.Csv, Parquet, Libsvm or Text"),
        ([X, Y], r"2 records, tensors of 6 entries.*session.batches\(\(X, Y\), ...\)"),
        ([X, X.clone()], "if they are records, torch.stack"),
        ([X.numpy(), Y.numpy()], "give a tuple of them"),
        (
            {"train": [1], "test": [2]},
            r"one of its values \(it has 'train', 'test'\)",
        ),
        ({}, "it has none"),
        ((line for line in "ab"), "got generator; .*put an iterable into a list"),
        (np.array(["a", "b"]), "data: expected an array of numbers, got <U1"),
        ({"a": np.array(["x", None], object)}, "column 'a': expected .* got object"),
        ({"a": X, "b": Y[:3]}, r"got lengths \[6, 3\] of a, b"),
        (X.to_sparse(), "a sparse tensor cannot be read by records"),
    ],
)
def test_what_to_give_instead_is_said(dataset: object, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        open_source(dataset)


def test_a_dictionary_of_columns_is_read_as_dictionaries() -> None:
    for data in ({"x": X, "y": Y.numpy()}, UserDict(x=X, y=Y)):
        opened = open_source(data)
        batch = opened.batch(PICKED)
        assert torch.equal(batch["x"], X[[3, 0, 3]])
        assert batch["y"].tolist() == [3, 0, 3]
        assert "(x: float32[2], y: int64[]) x 6" in opened.fingerprint()
    rows = open_source({"x": X, "y": Y}, collate_fn=list).batch(PICKED)
    assert [int(row["y"]) for row in rows] == [3, 0, 3]


def test_arrays_that_torch_would_warn_of_are_read() -> None:
    frozen = np.arange(6)
    frozen.flags.writeable = False
    swapped = np.arange(6, dtype=">i8")
    for array in (frozen, np.arange(6)[::-1][::-1], swapped, np.arange(5, -1, -1)[::-1]):
        assert open_source(array).batch(PICKED).tolist() == [3, 0, 3]


def test_few_images_in_a_list_are_records() -> None:
    images = [torch.full((3, 4), float(n)) for n in range(4)]
    assert open_source(images).batch(PICKED)[:, 0, 0].tolist() == [3, 0, 3]

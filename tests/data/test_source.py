"""Any map-style data becomes batches; different data has different fingerprints."""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from paceline.data import source
from paceline.data.map_style import MapSource
from paceline.data.opening import open_source
from paceline.data.source import HuggingFaceSource, TensorSource
from paceline.errors import DataError, UsageError

PICKED = np.array([3, 0, 3])


class Squares(Dataset):
    """Items are dictionaries; reads are counted."""

    def __init__(self, length: int = 5) -> None:
        self.length = length
        self.reads = 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, object]:
        self.reads += 1
        return {"x": torch.tensor([index * index]), "name": f"n{index}"}


class ManySquares(Squares):
    def __getitems__(self, indices: list[int]) -> list[dict[str, object]]:
        return [{"x": index * index} for index in indices]


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class Columns:
    """The surface of a Hugging Face ``datasets.Dataset`` that is used, without one."""

    def __init__(self, features: dict[str, str], columns: dict[str, list[object]]) -> None:
        self.features = {
            name: SimpleNamespace(dtype=kind) for name, kind in features.items()
        }
        self._columns = columns

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, key: int | list[int]) -> dict[str, object]:
        if isinstance(key, list):
            return {
                name: [column[i] for i in key] for name, column in self._columns.items()
            }
        return {name: column[key] for name, column in self._columns.items()}

    def with_format(self, _: str) -> "Columns":
        return self


def test_a_tuple_of_tensors_is_gathered_by_index() -> None:
    draw = torch.Generator().manual_seed(0)
    data = (torch.rand(97, 8, generator=draw), torch.arange(97) % 10)
    opened = open_source(data)
    images, labels = opened.batch(PICKED)
    assert isinstance(opened, TensorSource)
    assert len(opened) == 97
    assert torch.equal(images, data[0][[3, 0, 3]])
    assert labels.tolist() == [3, 0, 3]


def test_a_bare_tensor_or_array_yields_itself() -> None:
    for data in (torch.arange(5), np.arange(5)):
        assert open_source(data).batch(PICKED).tolist() == [3, 0, 3]


def test_a_tensor_dataset_takes_the_fast_way() -> None:
    opened = open_source(TensorDataset(torch.arange(5), torch.ones(5)))
    assert isinstance(opened, TensorSource)
    assert [column.tolist() for column in opened.batch(PICKED)] == [[3, 0, 3], [1, 1, 1]]


def test_a_subclass_of_tensor_dataset_keeps_its_own_items() -> None:
    class Doubled(TensorDataset):
        def __getitem__(self, index: int) -> torch.Tensor:
            return 2 * self.tensors[0][index]

    assert open_source(Doubled(torch.arange(5))).batch(PICKED).tolist() == [6, 0, 6]


def test_a_batch_is_the_callers_own() -> None:
    data = torch.zeros(5)
    open_source(data).batch(PICKED).add_(1)
    assert data.sum() == 0


def test_a_map_style_dataset_is_collated_as_torch_does() -> None:
    opened = open_source(Squares())
    batch = opened.batch(PICKED)
    assert isinstance(opened, MapSource)
    assert batch["x"].tolist() == [[9], [0], [9]]
    assert batch["name"] == ["n3", "n0", "n3"]


def test_items_are_read_at_once_where_the_dataset_can() -> None:
    dataset = ManySquares()
    assert open_source(dataset).batch(PICKED)["x"].tolist() == [9, 0, 9]
    assert dataset.reads == 0


def test_a_subset_and_a_list_are_datasets_too() -> None:
    assert open_source(Subset(Squares(), [4, 3, 2, 1])).batch(PICKED)["x"][0] == 1
    assert open_source([10, 11, 12, 13]).batch(PICKED).tolist() == [13, 10, 13]


def test_a_list_of_tensors_is_a_list_of_records() -> None:
    records = [torch.tensor([n, 2 * n]) for n in range(4)]
    opened = open_source(records)
    assert isinstance(opened, MapSource)
    assert len(opened) == 4
    assert opened.batch(PICKED).tolist() == [[3, 6], [0, 0], [3, 6]]


def test_a_collate_function_gets_single_items() -> None:
    data = (torch.arange(5), torch.arange(5, 10))
    pairs = open_source(data, collate_fn=list).batch(PICKED)
    assert [(int(a), int(b)) for a, b in pairs] == [(3, 8), (0, 5), (3, 8)]
    assert open_source(torch.arange(5), collate_fn=sum).batch(PICKED) == 6


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        (Stream(), "expected a map-style data set .* got Stream"),
        (iter([1]), "got list_iterator"),
        ({"train": [1]}, "dict is a mapping"),
        ((torch.ones(2), torch.ones(3)), r"got lengths \[2, 3\]"),
        ((torch.ones(2), [1, 2]), r"one of \(Tensor, list\)"),
        (torch.tensor(1.0), "without dimensions"),
        (torch.ones(0, 3), "empty"),
        ([], "empty"),
        ((), "empty"),
        (Squares(0), "empty"),
    ],
)
def test_what_has_no_records_to_index_is_refused(dataset: object, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        open_source(dataset)


def test_equal_data_has_one_fingerprint() -> None:
    def build() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.arange(6).reshape(3, 2), torch.ones(3, dtype=torch.bfloat16)

    opened = open_source(build())
    assert opened.fingerprint() == open_source(build()).fingerprint()
    assert "(int64[2], bfloat16[]) x 3" in opened.fingerprint()


@pytest.mark.parametrize(
    "other",
    [
        torch.tensor([1.0, 2.0, 4.0]),
        torch.tensor([1.0, 2.0]),
        torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64),
        torch.tensor([[1.0], [2.0], [3.0]]),
    ],
)
def test_other_values_lengths_dtypes_and_shapes_show(other: torch.Tensor) -> None:
    mine = open_source(torch.tensor([1.0, 2.0, 3.0])).fingerprint()
    assert open_source(other).fingerprint() != mine


def test_large_tensors_are_hashed_by_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_HASHED_WHOLE_BYTES", 80)
    data = torch.arange(100)  # 800 bytes: every 10th record
    whole = open_source(data).fingerprint()
    assert open_source(data.index_fill(0, torch.tensor([15]), -1)).fingerprint() == whole
    assert open_source(data.index_fill(0, torch.tensor([20]), -1)).fingerprint() != whole


def test_a_datasets_fingerprint_tells_type_structure_and_length() -> None:
    text = open_source(Squares()).fingerprint()
    assert text.endswith("Squares {x: int64[1], name: str} x 5")
    assert open_source(ManySquares()).fingerprint() != text


def test_a_fingerprint_leaves_the_users_random_numbers_alone() -> None:
    class Noisy(Squares):
        def __getitem__(self, index: int) -> dict[str, object]:
            return {"x": torch.rand(3) + index}

    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    open_source(Noisy()).fingerprint()
    assert torch.equal(torch.rand(2), expected)


def test_a_hugging_face_data_set_is_read_by_columns() -> None:
    features = {"id": "int64", "x": "float32", "text": "string", "many": "list"}
    columns = {
        "id": [0, 1, 2, 3],
        "x": [0.5, 1.5, 2.5, None],
        "text": ["a", "b", "c", "d"],
        "many": [[1], [], [2, 3], [4]],
    }
    opened = open_source(Columns(features, columns))
    assert isinstance(opened, HuggingFaceSource)
    assert len(opened) == 4
    batch = opened.batch(PICKED)
    assert (batch["id"].dtype, batch["id"].tolist()) == (torch.int64, [3, 0, 3])
    assert batch["x"].dtype == torch.float32
    assert str(batch["x"].tolist()) == "[nan, 0.5, nan]"
    assert batch["text"] == ["d", "a", "d"]
    assert batch["many"] == [[4], [1], [4]]
    told = "Hugging Face {id: int64, x: float32, text: string, many: list} x 4"
    assert opened.fingerprint() == told


def test_a_formatted_hugging_face_data_set_keeps_its_tensors() -> None:
    class Formatted(Columns):
        def __getitem__(self, key: int | list[int]) -> dict[str, object]:
            return {"t": torch.tensor(key), "a": np.array(key, np.float32)}

    opened = open_source(Formatted({"t": "int64", "a": "list"}, {"t": [0] * 4}))
    batch = opened.batch(PICKED)
    assert batch["t"].tolist() == [3, 0, 3]
    assert (batch["a"].dtype, batch["a"].tolist()) == (torch.float32, [3, 0, 3])


def test_a_missing_number_in_a_hugging_face_data_set_is_named() -> None:
    opened = open_source(Columns({"id": "int64"}, {"id": [0, None, 2, 3]}))
    text = "column 'id': expected torch.int64, got a missing value"
    with pytest.raises(DataError, match=text):
        opened.batch(np.array([0, 1]))


def test_a_hugging_face_data_set_with_a_collate_function_gives_items() -> None:
    opened = open_source(Columns({"id": "int64"}, {"id": [0, 1, 2, 3]}), collate_fn=list)
    assert opened.batch(PICKED) == [{"id": 3}, {"id": 0}, {"id": 3}]


@pytest.mark.parametrize("names", [(), ("ids", "labels")])
def test_a_glance_has_the_tensors_of_a_batch(names: tuple[str, ...]) -> None:
    found = TensorSource((torch.arange(8), torch.ones(8, 2)), names=names)
    records = np.array([5, 1])
    glance, batch = found.glance(records), found.batch(records)
    assert isinstance(glance, Mapping)
    assert [*glance] == [*(names or range(2))]
    for name, tensor in glance.items():
        assert torch.equal(tensor, batch[name])
    assert glance.get("no tensor") is None


def test_a_tensor_that_cannot_be_gathered_is_in_no_glance() -> None:
    glance = TensorSource((torch.arange(8),)).glance(np.array([5, 8]))
    assert isinstance(glance, Mapping)
    assert glance.get(0) is None

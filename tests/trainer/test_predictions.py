"""Predictions in a folder: what counts is listed, what does not is gone."""

from pathlib import Path

import msgspec
import pytest
import torch

from paceline.errors import StoreError, UsageError
from paceline.ids import TaskKey
from paceline.trainer.predictions import FolderPredictions
from paceline.trainer.verdicts import Task


def predict(folder: FolderPredictions, task: int, token: int, records: int = 3) -> bytes:
    folder.begin()
    folder.add(10 * task, records, torch.full((records,), float(task)))
    return folder.finish(Task(TaskKey(0, 0, task), 0, token))


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def test_an_attempt_that_does_not_count_is_not_listed_and_goes(tmp_path: Path) -> None:
    mine, other = FolderPredictions(str(tmp_path)), FolderPredictions(str(tmp_path))
    predict(other, 0, token=1)  # it was lost, and the task went to another
    results = [predict(mine, 0, token=2), predict(mine, 1, token=3)]
    assert len(names(tmp_path)) == 3
    mine.end(mine.value(results, missing=0))
    assert names(tmp_path) == [
        "part-000000-0-2.safetensors",
        "part-000001-0-3.safetensors",
        "predictions.json",
    ]
    listing = msgspec.json.decode((tmp_path / "predictions.json").read_bytes())
    assert listing["records"] == 6
    assert [file["first_record"] for file in listing["files"]] == [0, 10]


def test_every_trainer_may_end_it_and_a_file_of_the_users_stays(tmp_path: Path) -> None:
    folder = FolderPredictions(str(tmp_path))
    value = folder.value([predict(folder, 0, token=1)], missing=0)
    (tmp_path / "notes.txt").write_text("mine")
    folder.end(value)
    FolderPredictions(str(tmp_path)).end(value)
    assert names(tmp_path) == [
        "notes.txt",
        "part-000000-0-1.safetensors",
        "predictions.json",
    ]


def test_what_a_killed_writer_left_goes_with_the_listing_and_nothing_else(
    tmp_path: Path,
) -> None:
    folder = FolderPredictions(str(tmp_path))
    value = folder.value([predict(folder, 0, token=1)], missing=0)
    (tmp_path / ".0123456789abcdef.tmp").write_bytes(b"half a file")
    (tmp_path / ".mine.tmp").write_bytes(b"the user's")
    folder.end(value)
    left = [".mine.tmp", "part-000000-0-1.safetensors", "predictions.json"]
    assert names(tmp_path) == left


def test_two_calls_into_one_folder_are_refused(tmp_path: Path) -> None:
    folder = FolderPredictions(str(tmp_path))
    value = folder.value([predict(folder, 0, token=1)], missing=0)
    folder.end(value)
    with pytest.raises(UsageError, match="holds predictions already; name a new folder"):
        FolderPredictions(str(tmp_path)).begin()
    with pytest.raises(UsageError, match="is of other predictions"):
        folder.end(folder.value([], missing=1))
    with pytest.raises(StoreError, match="the name is taken"):
        predict(folder, 0, token=1)


def test_batches_of_one_task_must_have_the_same_names(tmp_path: Path) -> None:
    folder = FolderPredictions(str(tmp_path))
    folder.begin()
    folder.add(0, 2, {"a": torch.zeros(2)})
    with pytest.raises(UsageError, match=r"one batch has \['a'\], another \['b'\]"):
        folder.add(2, 2, {"b": torch.zeros(2)})
    with pytest.raises(UsageError, match="expected predictions"):
        folder.add(2, 2, {})


@pytest.mark.parametrize(
    ("predictions", "text"),
    [
        (
            {"a.b": torch.zeros(2), "a": {"b": torch.ones(2)}},
            r"at \['a.b'\] and at \['a'\]\['b'\] would both be named 'a.b'",
        ),
        (
            ({"x": torch.zeros(2)}, {"0.x": torch.ones(2)}, {"x": torch.ones(2)}),
            None,
        ),
        ({0: torch.zeros(2), "0": torch.ones(2)}, r"at \[0\] and at \['0'\] would both"),
        (
            {"0": [torch.zeros(2)], "0.0": torch.ones(2)},
            r"at \['0'\]\[0\] and at \['0.0'\] would both be named '0.0'",
        ),
        ({"": torch.zeros(2)}, r"at \[''\] would be named '', .* has no such name"),
        ({"a": {"": torch.zeros(2)}}, r"at \['a'\]\[''\] would be named 'a.'"),
        ({"__metadata__": torch.zeros(2)}, "would be named '__metadata__'"),
        ({"\ud800": torch.zeros(2)}, "give it another key"),
    ],
)
def test_no_prediction_takes_the_name_of_another(
    tmp_path: Path, predictions: object, text: str | None
) -> None:
    folder = FolderPredictions(str(tmp_path))
    folder.begin()
    if text is None:
        folder.add(0, 2, predictions)
        folder.finish(Task(TaskKey(0, 0, 0), 0, 1))
        return
    with pytest.raises(UsageError, match=text):
        folder.add(0, 2, predictions)
    assert names(tmp_path) == []

"""Three trainers predict together, each in a thread: every record once, in order."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import paceline
from tests.cluster.together import BATCH, RECORDS, TASK, columns, shared


@pytest.mark.slow
def test_predictions_lie_in_files_in_the_order_of_the_data(
    run: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "predictions"

    def script(session: paceline.Session) -> None:
        shared(session, nn.Linear(3, 2))
        session.predict(
            lambda b: {"sum": b[0].sum(1), "pair": (b[1], b[0].numpy())},
            columns(),
            folder,
            batch_size=BATCH,
            task_size=TASK,
        )

    run(script)
    listing = msgspec.json.decode((folder / "predictions.json").read_bytes())
    names = [file["name"] for file in listing["files"]]
    assert names == sorted(names)
    assert {path.name for path in folder.iterdir()} == {*names, "predictions.json"}
    assert (listing["records"], listing["missing_tasks"]) == (RECORDS, 0)
    features, label = columns()
    files = [load_file(folder / name) for name in names]
    for name, expected in {
        "sum": features.sum(1),
        "pair.0": label,
        "pair.1": features,
    }.items():
        assert torch.equal(torch.cat([file[name] for file in files]), expected), name
    assert [file["first_record"] for file in listing["files"]] == list(
        range(0, RECORDS, TASK)
    )


@pytest.mark.slow
def test_a_folder_with_predictions_is_not_written_into(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "predictions"

    def script(session: paceline.Session) -> None:
        shared(session, nn.Linear(3, 2))
        session.predict(lambda b: b[0], columns(), folder)
        with pytest.raises(paceline.UsageError, match="holds predictions already"):
            session.predict(lambda b: b[0], columns(), folder)

    run(script, trainers=1)


@pytest.mark.slow
def test_predictions_of_another_length_are_refused(run: Any, tmp_path: Path) -> None:
    def script(session: paceline.Session) -> None:
        shared(session, nn.Linear(3, 2))
        with pytest.raises(paceline.UsageError, match="'predictions' to have 4 entries"):
            session.predict(
                lambda b: b[0].sum(), columns(), tmp_path / "p", batch_size=BATCH
            )
        with pytest.raises(paceline.UsageError, match="'a' to be a tensor or an array"):
            session.predict(lambda _: {"a": "text"}, columns(), tmp_path / "q")

    run(script, trainers=1)


@pytest.mark.slow
def test_a_function_gets_the_predictions_of_every_batch(run: Any) -> None:
    written: dict[int, list[float]] = {}

    def script(session: paceline.Session) -> None:
        shared(session, nn.Linear(3, 2))
        session.predict(
            lambda b: b[1].tolist(), columns(), written.__setitem__, batch_size=BATCH
        )

    run(script)
    ordered = [label for first in sorted(written) for label in written[first]]
    assert ordered == columns()[1].tolist()

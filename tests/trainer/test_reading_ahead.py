"""`session.batches(..., workers=n)`: the same loop, read by other processes."""

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from paceline.data import Csv
from paceline.messages.trainer import FailTask, HandBack
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA, share_line, stepper

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [1, 3])
def test_the_same_batches_come_in_the_same_order(workers: int) -> None:
    expected = [batch.flatten().tolist() for batch in batches_of_a_fresh_job(0)]
    assert [b.flatten().tolist() for b in batches_of_a_fresh_job(workers)] == expected


def batches_of_a_fresh_job(workers: int) -> list[torch.Tensor]:
    with FakeJob(servers=2).session() as session:
        step, seen = stepper(*share_line(session)), []
        for batch in session.batches(DATA, 2, epochs=2, task_size=6, workers=workers):
            seen.append(batch.clone())
            step(batch)
        return seen


def test_a_task_of_a_torn_file_fails_by_its_name_and_line(
    job: FakeJob, session: Session, tmp_path: Path
) -> None:
    lines = [f"{number}.0" for number in range(1100)]  # more than its dtype is chosen by
    lines[1050] = "torn"
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["x", *lines]))
    model, optimizer = share_line(session)
    source = Csv(path, transform=lambda columns: columns["x"].unsqueeze(1))
    batches = session.batches(source, 50, shuffle=False, task_size=100, workers=2)
    for batch in batches:
        stepper(model, optimizer)(batch)
    [failed] = job.of(FailTask)
    assert failed.error.startswith(f"DataError: {path}, line 1052: column 'x': expected")
    assert job.records == 1050


def test_break_ends_the_processes_and_hands_the_rest_back(
    job: FakeJob, session: Session
) -> None:
    step = stepper(*share_line(session))
    for batch in session.batches(DATA, 2, shuffle=False, task_size=6, workers=2):
        step(batch)
        break
    assert job.of(HandBack)
    assert job.records == 2

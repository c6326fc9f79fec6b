"""A job is stopped and resumed with other numbers of roles: every record counts once."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics
from torch import Tensor, nn

import paceline
from paceline.config import JobConfig, Sync
from paceline.launch.embedded import EmbeddedJob
from paceline.trainer.session import Session
from paceline.watch.summary import Ending, Verdict

RECORDS, IDS, BATCH, EPOCHS = 480, 30, 8, 2


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = paceline.Embedding(
            "count", 1, optimizer=paceline.SGD(lr=1.0), init=paceline.Zeros()
        )
        self.total = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, ids: Tensor) -> Tensor:
        return -(self.count(ids).sum() + len(ids) * self.total.sum())


kept: list[Any] = []


def make_data() -> Tensor:
    return torch.from_numpy(np.random.default_rng(3).integers(0, IDS, RECORDS))


def open_job(folder: Path, servers: int, trainers: int, *, is_resumed: bool) -> EmbeddedJob:
    config = JobConfig(
        run=f"run-{servers}-{trainers}-{is_resumed}",
        servers=servers,
        trainers=trainers,
        pace=Sync(reduce="sum"),
    )
    return EmbeddedJob(config, folder, is_resumed=is_resumed)


def count(session: Session, stop_after: int | None = None) -> Counter:
    """Train; after ``stop_after`` batches the process is as good as dead."""
    model = Counter()
    optimizer = session.share(model, torch.optim.SGD([model.total], lr=1.0))
    data = make_data()
    batches = session.batches(data, batch_size=BATCH, epochs=EPOCHS, task_size=40)
    kept.append(batches)  # a loop that nobody looks at any more would be left as by break
    for number, ids in enumerate(batches):
        if number == stop_after:
            session.save()
        if stop_after is not None and number == stop_after + 3:
            return model
        model(ids).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


@pytest.mark.slow
def test_a_chain_of_runs_with_changing_numbers_counts_every_record_once(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "job"
    for servers, stop_after in ((2, 7), (3, 20), (1, 11)):
        job = open_job(folder, servers, 1, is_resumed=stop_after != 7)
        session = job.session("trainer-0")
        count(session, stop_after)
        job.close(Verdict(Ending.FAILED, "the power went"))
        session.membership.driver.close()
        kept.pop().close()
    job = open_job(folder, 2, 2, is_resumed=True)
    sessions = [job.session(f"trainer-{number}") for number in range(2)]
    models: list[Counter] = []
    threads = [
        threading.Thread(target=lambda s=session: models.append(count(s)))  # type: ignore[misc]
        for session in sessions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads), "a trainer hangs"
    model = models[0].eval()
    with torch.no_grad():
        counts = model.count(torch.arange(IDS)).flatten()
    summary = job.close()
    assert counts.tolist() == (torch.bincount(make_data(), minlength=IDS) * EPOCHS).tolist()
    assert float(model.total.item()) == RECORDS * EPOCHS
    assert summary["records"] == RECORDS * EPOCHS
    assert summary["status"] == "finished"


def test_a_folder_without_a_job_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(paceline.UsageError, match="holds no job"):
        open_job(tmp_path / "job", 1, 1, is_resumed=True)


def test_a_running_job_cannot_be_resumed(tmp_path: Path) -> None:
    job = open_job(tmp_path / "job", 1, 1, is_resumed=False)
    with pytest.raises(paceline.UsageError, match="its job is running"):
        open_job(tmp_path / "job", 1, 1, is_resumed=True)
    job.close(Verdict(Ending.FAILED, "the test is over"))


def sum_up(session: Session, dies_after: int | None = None) -> float:
    """Evaluate the sum of the data; after ``dies_after`` batches the process is dead."""
    model = Counter()
    session.share(model, torch.optim.SGD([model.total], lr=1.0))
    num_seen = 0

    def step(ids: Tensor) -> Tensor:
        nonlocal num_seen
        num_seen += 1
        if num_seen == dies_after:
            session.save()
        if dies_after is not None and num_seen == dies_after + 3:
            raise KeyboardInterrupt
        return ids

    metric = torchmetrics.SumMetric()
    value = session.evaluate(metric, step, make_data(), batch_size=BATCH, task_size=40)
    return float(value)


@pytest.mark.slow
def test_an_evaluation_goes_on_where_a_run_was_killed_and_counts_once(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "job"
    for servers, dies_after in ((2, 12), (1, 23)):
        job = open_job(folder, servers, 1, is_resumed=servers == 1)
        with pytest.raises(KeyboardInterrupt):
            sum_up(job.session("trainer-0"), dies_after)
        job.close(Verdict(Ending.FAILED, "the power went"))
    expected = float(make_data().sum())
    job = open_job(folder, 2, 1, is_resumed=True)
    assert sum_up(job.session("trainer-0")) == expected
    assert job.close()["tasks"] == {"done": RECORDS // 40, "failed": 0}
    job = open_job(folder, 3, 1, is_resumed=True)
    assert sum_up(job.session("trainer-0"), dies_after=1) == expected, "it is known"
    job.close()

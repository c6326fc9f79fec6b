"""A forecast counts what a real job of the same kind counts."""

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import nn

from paceline.config import Async, JobConfig, Pace, Sync
from paceline.events import event_lines
from paceline.forecast.fitting import fit
from paceline.forecast.job import Forecast, forecast
from paceline.forecast.models import Fixed
from paceline.forecast.plan import Plan
from paceline.launch.embedded import EmbeddedJob

RECORDS, BATCH, EPOCHS = 640, 2, 2  # 64 tasks of five batches
OUTCOMES = (  # but cuts between the first and the last, which are taken by the clock
    "TrainerJoined",
    "PartPlanned",
    "StageRegistered",
    "LeaseGranted",
    "TaskDone",
    "EpochEnded",
    "RoundCommitted",
)


def run_job(folder: Path, trainers: int, pace: Pace) -> list[dict[str, Any]]:
    """The events of a real job, its trainers in threads."""
    config = JobConfig(run="beside", trainers=trainers, pace=pace, cut_every_s=0)
    job = EmbeddedJob(config, folder)
    data = (torch.ones(RECORDS, 1), torch.ones(RECORDS, 1))

    def train(index: int) -> None:
        session = job.session(f"trainer-{index}")
        model = nn.Linear(1, 1)
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.01))
        for x, y in session.batches(data, BATCH, epochs=EPOCHS):
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        session.close()

    threads = [threading.Thread(target=train, args=(index,)) for index in range(trainers)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert not any(thread.is_alive() for thread in threads), "a trainer hangs"
    finally:
        job.close()
    lines = event_lines(folder / "events.jsonl")
    return [msgspec.json.decode(line, type=dict[str, Any]) for line in lines]


def forecast_job(trainers: int, pace: Pace) -> Forecast:
    return forecast(
        Plan(
            trainers=trainers,
            pace=pace,
            records=RECORDS,
            batch_size=BATCH,
            epochs=EPOCHS,
            compute=Fixed(0.001),
            cut_every_s=0,
        )
    )


def counted(outcomes: Sequence[str] | Counter[str] | dict[str, int]) -> dict[str, int]:
    counts = Counter(outcomes)
    return {name: counts[name] for name in OUTCOMES}


@pytest.mark.slow
@pytest.mark.parametrize(
    "pace", [Sync(), Async(), Async(push_every=2, pull_every=4)], ids=str
)
def test_one_trainer_has_the_same_tasks_leases_rounds_and_pushes(
    tmp_path: Path, pace: Pace
) -> None:
    events = run_job(tmp_path / "job", 1, pace)
    found = forecast_job(1, pace)
    assert counted([event["event"] for event in events]) == counted(found.outcomes)
    progress = [event for event in events if event["event"] == "progress"]
    assert found.records == RECORDS * EPOCHS
    assert all(event["steps"] <= found.updates for event in progress)


@pytest.mark.slow
def test_two_in_lockstep_have_the_same_tasks_and_leases(tmp_path: Path) -> None:
    events = run_job(tmp_path / "job", 2, Sync())
    found = counted(forecast_job(2, Sync()).outcomes)
    real = counted([event["event"] for event in events])
    # Where a trainer comes late to a round, that round is closed without it.
    assert real.pop("RoundCommitted") >= found.pop("RoundCommitted") == 320
    assert real == found


@pytest.mark.slow
def test_a_real_job_tells_how_long_its_batches_take(tmp_path: Path) -> None:
    run_job(tmp_path / "job", 2, Async())
    fitted = fit(event_lines(tmp_path / "job" / "events.jsonl"), "the job").compute
    assert len(fitted.trainers) == 2
    assert all(0 < own.seconds[-1] < 60 for own in fitted.trainers)

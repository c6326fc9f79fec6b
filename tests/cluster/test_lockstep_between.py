"""With `allreduce`, three trainers are one process on the joined batches."""

from pathlib import Path

import pytest
import torch
from torch import nn

import paceline
from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.launch.embedded import EmbeddedJob
from tests.cluster.test_lockstep import (
    BATCH,
    EPOCHS,
    OPTIMIZERS,
    RECORDS,
    TRAINERS,
    committed_rounds,
    make_data,
    make_model,
    train_alone,
    train_together,
)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_three_trainers_without_servers_equal_one_process(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    config = JobConfig(run="between", trainers=TRAINERS, servers=2, timeout_s=60.0)
    job = EmbeddedJob(config, tmp_path / "job")
    try:
        together = train_together(job, make_data(dtype), OPTIMIZERS[name], "allreduce")
    finally:
        summary = job.close()
    assert summary["records"] == RECORDS * EPOCHS
    rounds = committed_rounds(tmp_path / "job" / "events.jsonl")
    alone = train_alone(rounds, make_data(dtype), OPTIMIZERS[name])
    for mine, theirs in zip(together[0].parameters(), alone.parameters(), strict=True):
        if dtype is torch.float64:
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)
        else:
            assert (mine - theirs).norm() / theirs.norm() <= 1e-6
    for other in together[1:]:
        for mine, theirs in zip(other.parameters(), together[0].parameters(), strict=True):
            assert torch.equal(mine, theirs)


def test_the_first_trainers_values_are_everybodys(tmp_path: Path) -> None:
    config = JobConfig(run="begins", trainers=1, servers=1, timeout_s=60.0)
    job = EmbeddedJob(config, tmp_path / "job")
    try:
        models = []
        for index in range(2):
            torch.manual_seed(index)
            model = nn.Linear(3, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            session = job.session(f"trainer-{index}")
            session.share(model, optimizer, pace=paceline.AllReduce())
            models.append(model)
    finally:
        job.close()
    assert torch.equal(models[0].weight, models[1].weight)
    assert torch.equal(models[0].bias, models[1].bias)


def test_what_cannot_be_shared_so_is_refused(tmp_path: Path) -> None:
    config = JobConfig(run="refused", trainers=1, servers=1, timeout_s=60.0)
    job = EmbeddedJob(config, tmp_path / "job")
    try:
        session = job.session("trainer-0")
        rows = nn.ModuleList([paceline.Embedding("rows", 2), nn.Linear(2, 1)])
        optimizer = torch.optim.SGD(rows[1].parameters(), lr=0.1)
        with pytest.raises(UsageError, match="rows of embeddings live on servers"):
            session.share(rows, optimizer, pace=paceline.AllReduce())
        half = nn.Linear(2, 1).half()
        optimizer = torch.optim.SGD(half.parameters(), lr=0.1)
        with pytest.raises(UsageError, match="one dtype, float32 or float64"):
            session.share(half, optimizer, pace=paceline.AllReduce())
    finally:
        job.close()


def test_a_batch_without_a_step_is_refused(tmp_path: Path) -> None:
    job = EmbeddedJob(JobConfig(run="between"), tmp_path / "job")
    try:
        session, model = job.session("trainer-0"), make_model(torch.float32)
        optimizer = OPTIMIZERS["sgd"](model.parameters())
        session.share(model, optimizer, pace="allreduce")

        def accumulate() -> None:
            for features, target in session.batches(make_data(torch.float32), BATCH):
                nn.functional.mse_loss(model(features), target).backward()

        with pytest.raises(UsageError, match="accumulate gradients by larger batches"):
            accumulate()
        assert session.records == 0
    finally:
        job.close()

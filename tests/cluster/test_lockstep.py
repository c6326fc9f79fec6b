"""`sync` with three trainers and uneven data is one process on the joined batches."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from paceline.config import JobConfig, Sync
from paceline.data.order import records_at
from paceline.launch.embedded import EmbeddedJob

RECORDS, BATCH, TASK, EPOCHS, TRAINERS = 335, 4, 12, 2, 3
MakeOptimizer = Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer]
# Momentum of 0.9 makes ten times the rate of it; beyond this one float32's rounding grows
# from step to step, and how many steps there are depends on how the trainers meet.
OPTIMIZERS: dict[str, MakeOptimizer] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
}


def make_model(dtype: torch.dtype) -> nn.Sequential:
    torch.manual_seed(3)
    layers = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    return layers.to(dtype)


def make_data(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(5)
    features = torch.randn(RECORDS, 6, generator=draw, dtype=torch.float64)
    noise = torch.randn(RECORDS, 1, generator=draw, dtype=torch.float64)
    target = features[:, :1] * features[:, 1:2] + 0.1 * noise
    return features.to(dtype), target.to(dtype)


def train_together(
    job: EmbeddedJob,
    data: tuple[Tensor, Tensor],
    make_optimizer: MakeOptimizer,
    pace: str | None = None,
) -> list[nn.Sequential]:
    """Every trainer in a thread of its own; their models after the loop."""
    dtype = data[0].dtype
    models = [make_model(dtype) for _ in range(TRAINERS)]
    errors: list[BaseException] = []

    def train(index: int) -> None:
        try:
            session = job.session(f"trainer-{index}")
            model = models[index]
            made = make_optimizer(model.parameters())
            optimizer = session.share(model, made, pace=pace)
            for features, target in session.batches(
                data, BATCH, epochs=EPOCHS, task_size=TASK, seed=11
            ):
                nn.functional.mse_loss(model(features), target).backward()
                optimizer.step()
                optimizer.zero_grad()
        except BaseException as error:  # noqa: BLE001  (raised again by the test)
            errors.append(error)

    threads = [threading.Thread(target=train, args=(i,)) for i in range(TRAINERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
    assert not any(thread.is_alive() for thread in threads), "a trainer hangs"
    if errors:
        raise errors[0]
    return models


def train_alone(
    rounds: list[list[tuple[int, int, int, int]]],
    data: tuple[Tensor, Tensor],
    make_optimizer: MakeOptimizer,
) -> nn.Sequential:
    """One process on the joined batches of the rounds (epoch, task, first, last)."""
    model = make_model(data[0].dtype)
    optimizer = make_optimizer(model.parameters())
    for windows in rounds:
        positions = np.concatenate(
            [
                np.arange(
                    task * TASK + first * BATCH,
                    min(task * TASK + (last + 1) * BATCH, (task + 1) * TASK, RECORDS),
                )
                for _, task, first, last in windows
            ]
        )
        [epoch] = {window[0] for window in windows}
        records = torch.from_numpy(records_at(positions, RECORDS, 11, epoch, True))
        loss = nn.functional.mse_loss(model(data[0][records]), data[1][records])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def committed_rounds(events: Path) -> list[list[tuple[int, int, int, int]]]:
    """{round: its contributors' windows}, as the coordinator told them."""
    rounds = []
    for line in events.read_bytes().splitlines():
        event = msgspec.json.decode(line)
        if event["event"] == "RoundCommitted":
            windows = [c["window"] for c in event["contributions"]]
            spans = [(epoch, *span) for _, epoch, spans in windows for span in spans]
            rounds.append(spans)
    return rounds


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_three_trainers_in_lockstep_equal_one_process(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    config = JobConfig(
        run=f"lockstep-{name}-{dtype}",
        trainers=TRAINERS,
        servers=2,
        pace=Sync(),
        timeout_s=60.0,
    )
    data = make_data(dtype)
    job = EmbeddedJob(config, tmp_path / "job")
    try:
        together = train_together(job, data, OPTIMIZERS[name])
    finally:
        summary = job.close()
    assert summary["records"] == RECORDS * EPOCHS
    rounds = committed_rounds(tmp_path / "job" / "events.jsonl")
    assert len(rounds) >= 50
    assert {len(windows) for windows in rounds} > {3}, "the data was not uneven"
    alone = train_alone(rounds, data, OPTIMIZERS[name])
    for mine, theirs in zip(together[0].parameters(), alone.parameters(), strict=True):
        if dtype is torch.float64:
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)
        else:
            distance = (mine - theirs).norm() / theirs.norm()
            assert distance <= 1e-6, f"{name}: {distance:.2e}"
    for other in together[1:]:
        for mine, theirs in zip(other.parameters(), together[0].parameters(), strict=True):
            assert torch.equal(mine, theirs)

"""Gradients sent while backward still runs train the same bits, alone and with others."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from paceline.config import SSP, Async, JobConfig, Pace, Sync
from paceline.launch.embedded import EmbeddedJob
from paceline.messages.data import Push
from paceline.server.requests.early_gradients import EarlyGradients

WIDE, BATCH, TASK = 128, 4, 24
FEATURES = torch.linspace(-1, 1, 2 * TASK * WIDE).reshape(2 * TASK, WIDE)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def train(folder: Path, pace: Pace, trainers: int, *, overlap: bool) -> list[Tensor]:
    """The values that all trainers have in the end."""
    config = JobConfig(
        run=folder.name, trainers=trainers, servers=2, pace=pace, timeout_s=60.0
    )
    job = EmbeddedJob(config, folder)
    torch.manual_seed(3)
    models = [
        nn.Sequential(nn.Linear(WIDE, WIDE), nn.Tanh(), nn.Linear(WIDE, 1))
        for _ in range(trainers)
    ]
    for model in models[1:]:
        model.load_state_dict(models[0].state_dict())
    # Who holds a task is in the round: so both are in all of them.
    have_tasks = threading.Barrier(trainers, timeout=60.0)

    def run(index: int) -> list[Tensor]:
        model = models[index]
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        session = job.session(f"trainer-{index}")
        optimizer = session.share(model, optimizer, overlap=overlap)
        batches = session.batches(FEATURES, BATCH, shuffle=False, task_size=TASK)
        for number, features in enumerate(batches):
            if number == 0:
                have_tasks.wait()
            model(features).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return [parameter.detach().clone() for parameter in model.parameters()]

    with ThreadPoolExecutor(trainers) as pool:
        try:
            running = [pool.submit(run, index) for index in range(trainers)]
            first, *others = [one.result(120) for one in running]
        finally:
            job.close()
    for other in others:
        assert_same(other, first)
    return first


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pace", "trainers"),
    [
        (Sync(), 1),
        (Sync(), 2),
        (Async(), 1),
        (Async(pull_every=2), 1),
        (SSP(staleness=1), 1),
    ],
    ids=str,
)
def test_gradients_sent_early_train_the_same_bits(
    pace: Pace, trainers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = train(tmp_path / "whole", pace, trainers, overlap=False)
    named: list[int] = []
    take = EarlyGradients.take

    def note(self: EarlyGradients, push: Push) -> dict[int, Tensor] | None:
        found = take(self, push)
        named.extend(found or ())
        return found

    monkeypatch.setattr(EarlyGradients, "take", note)
    found = train(tmp_path / "early", pace, trainers, overlap=True)
    assert len(named) >= len(FEATURES) // BATCH, "gradients did not go early"
    assert_same(found, expected)

"""Three trainers evaluate and predict together, each in a thread, whoever is lost."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torchmetrics
from safetensors.torch import load_file
from torch import nn

import paceline
from paceline.config import Async, JobConfig, Pace, Sync
from paceline.launch.embedded import EmbeddedJob
from paceline.messages import MAX_RESULT_BYTES
from paceline.trainer.evaluator import IncompleteWarning

RECORDS, BATCH, TASK = 103, 4, 12
Script = Callable[[int, paceline.Session], Any]


def columns() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    features = torch.randn(RECORDS, 3, generator=draw)
    return features, (
        features.sum(1) + 0.5 * torch.randn(RECORDS, generator=draw) > 0
    ).long()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., list[Any]]]:
    """Run a script in a thread for each trainer; what each came to, and the summary."""
    jobs: list[EmbeddedJob] = []

    def run_script(script: Script, trainers: int = 3, pace: Pace | None = None) -> Any:
        config = JobConfig(
            run="evaluation",
            trainers=trainers,
            servers=2,
            pace=pace or Sync(),
            timeout_s=60.0,
        )
        job = EmbeddedJob(config, tmp_path / "job")
        jobs.append(job)
        found: dict[int, Any] = {}
        errors: list[BaseException] = []

        def act(index: int) -> None:
            try:
                found[index] = script(index, job.session(f"trainer-{index}"))
            except BaseException as error:  # noqa: BLE001  (raised again below)
                errors.append(error)

        threads = [threading.Thread(target=act, args=(i,)) for i in range(trainers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert not any(thread.is_alive() for thread in threads), "a trainer hangs"
        if errors:
            raise errors[0]
        return [found[index] for index in range(trainers)]

    run_script.jobs = jobs  # type: ignore[attr-defined]
    yield run_script
    for job in jobs:
        job.close()


def shared(session: paceline.Session, model: nn.Module) -> Any:
    return session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))


def train(session: paceline.Session, model: nn.Module, optimizer: Any, **how: Any) -> None:
    for features, label in session.batches(columns(), BATCH, task_size=TASK, **how):
        loss = nn.functional.cross_entropy(model(features), label)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def accuracy() -> torchmetrics.Metric:
    return torchmetrics.classification.MulticlassConfusionMatrix(2)


@pytest.mark.slow
@pytest.mark.parametrize("pace", [Sync(), Async()])
def test_the_value_is_that_of_one_process_and_the_same_for_all(
    run: Any, pace: Pace
) -> None:
    def script(index: int, session: paceline.Session) -> Any:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = shared(session, model)
        train(session, model, optimizer)
        value = session.evaluate(
            accuracy(), lambda b: (model(b[0]), b[1]), columns(), batch_size=BATCH
        )
        return value, [p.detach().clone() for p in model.parameters()], session.records

    found = run(script, pace=pace)
    model = nn.Linear(3, 2)
    with torch.no_grad():
        for mine, theirs in zip(model.parameters(), found[0][1], strict=True):
            mine.copy_(theirs)
        expected = accuracy()
        features, label = columns()
        expected.update(model(features), label)
    assert expected.compute().sum() == RECORDS
    for value, parameters, records in found:
        assert torch.equal(value, expected.compute())
        assert all(map(torch.equal, parameters, found[0][1]))
        assert records == RECORDS

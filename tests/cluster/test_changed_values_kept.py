"""Values that a script changes, and what becomes of them where it begins again."""

import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torchmetrics
from torch import nn
from torch.nn import functional

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.launch.embedded import EmbeddedJob
from paceline.trainer.engine.engine import StepWarning
from paceline.watch.summary import Ending, Verdict

BATCH = 8


class PowerGoneError(Exception):
    """The power goes."""


def columns() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(64, 6, generator=draw), torch.randn(64, 1, generator=draw)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))


def values(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def loop(session: Any, model: nn.Module, optimizer: Any, kill_at: int = -1) -> None:
    for number, (x, y) in enumerate(session.batches(columns(), BATCH, shuffle=False)):
        optimizer.zero_grad()
        functional.mse_loss(model(x), y).backward()
        optimizer.step()
        if number == kill_at:
            raise PowerGoneError


def scale(model: nn.Module, factor: float) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(factor)


def until_killed(folder: Path, script: Any) -> None:
    job = EmbeddedJob(JobConfig(run="first"), folder)
    session = job.session("trainer-0")
    with pytest.raises(PowerGoneError):
        script(session)
    job.close(Verdict(Ending.FAILED, "the power went"))
    session.membership.driver.close()


def to_its_end(folder: Path, script: Any, *, is_resumed: bool) -> torch.Tensor:
    job = EmbeddedJob(JobConfig(run="whole"), folder, is_resumed=is_resumed)
    with job.session("trainer-0") as session:
        found: torch.Tensor = script(session)
    job.close()
    return found


def test_a_change_between_loops_is_made_once_whoever_begins_again(tmp_path: Path) -> None:
    def script(session: Any, kill_at: int = -1) -> torch.Tensor:
        model = net()
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.05))
        loop(session, model, optimizer)
        scale(model, 0.5)  # twice would be a quarter
        loop(session, model, optimizer, kill_at)
        return values(model)

    until_killed(tmp_path / "killed", lambda session: script(session, kill_at=2))
    expected = to_its_end(tmp_path / "whole", script, is_resumed=False)
    assert torch.equal(to_its_end(tmp_path / "killed", script, is_resumed=True), expected)


def test_what_is_swapped_in_for_an_evaluation_is_nobody_elses(tmp_path: Path) -> None:
    def script(session: Any, *, is_killed: bool = False) -> torch.Tensor:
        model = net()
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.05))
        loop(session, model, optimizer)
        trained = [one.detach().clone() for one in model.parameters()]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(0.5)

        def predicted(batch: Any) -> Any:
            if is_killed:
                raise PowerGoneError
            return model(batch[0]), batch[1]

        error = session.evaluate(torchmetrics.MeanSquaredError(), predicted, columns())
        with torch.no_grad():
            swapped = functional.mse_loss(model(columns()[0]), columns()[1])
            assert error == pytest.approx(swapped.item())
            for parameter, value in zip(model.parameters(), trained, strict=True):
                parameter.copy_(value)
        loop(session, model, optimizer)
        return values(model)

    until_killed(tmp_path / "killed", lambda session: script(session, is_killed=True))
    expected = to_its_end(tmp_path / "whole", script, is_resumed=False)
    assert torch.equal(to_its_end(tmp_path / "killed", script, is_resumed=True), expected)


def test_what_stays_after_an_evaluation_is_trained_on(tmp_path: Path) -> None:
    def script(session: Any) -> torch.Tensor:
        model = net()
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.0))
        loop(session, model, optimizer)
        scale(model, 0.5)
        session.evaluate(
            torchmetrics.MeanSquaredError(), lambda b: (model(b[0]), b[1]), columns()
        )
        loop(session, model, optimizer)
        return values(model)

    expected = net()
    scale(expected, 0.5)
    found = to_its_end(tmp_path / "job", script, is_resumed=False)
    assert torch.equal(found, values(expected))


def test_a_change_before_a_break_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    job = EmbeddedJob(JobConfig(run="break", trainers=2), tmp_path / "job")
    sessions = [job.session(f"trainer-{index}") for index in range(2)]
    told: list[str] = []

    def act(session: Any) -> None:
        model = net()
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.0))
        for x, y in session.batches(columns(), BATCH):
            functional.mse_loss(model(x), y).backward()
            optimizer.step()
            scale(model, 0.5)
            break
        with pytest.raises(UsageError, match=r"(was|were) changed"):
            loop(session, model, optimizer)
        told.append("refused")

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=act, args=(one,)) for one in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
    words = [str(one.message) for one in seen if issubclass(one.category, StepWarning)]
    assert any("the job has 2 trainers" in word for word in words)
    assert told
    job.close(Verdict(Ending.FAILED, "that is enough"))

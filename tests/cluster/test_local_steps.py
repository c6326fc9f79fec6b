"""Local SGD and DiLoCo: what trainers come to is what the papers' loops come to."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.config import DiLoCo, LocalSGD, Pace

RECORDS, BATCH, TASK = 192, 4, 16


def columns() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(3)
    features = torch.randn(RECORDS, 5, generator=draw, dtype=torch.float64)
    return features, features @ torch.arange(5.0, dtype=torch.float64) + 1.0


def fresh_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
    features, target = batch
    return ((model(features).flatten() - target) ** 2).mean()


class Seen:
    """What one trainer was delivered, and the values that it has at the end."""

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.values: list[torch.Tensor] = []


def script_of(optimizer_of: Callable[[nn.Module], Any], epochs: int) -> Any:
    def script(session: paceline.Session) -> Seen:
        seen, model = Seen(), fresh_model()
        optimizer = session.share(model, optimizer_of(model))
        for batch in session.batches(columns(), BATCH, epochs=epochs, task_size=TASK):
            seen.batches.append(batch)
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            optimizer.step()
        seen.values = [one.detach().clone() for one in model.parameters()]
        return seen

    return script


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01)


def by_hand(pace: LocalSGD | DiLoCo, batches: list[Any], epochs: int) -> list[torch.Tensor]:
    """One trainer's local steps and the outer steps on their deltas, in a plain loop."""
    model, outer = fresh_model(), fresh_model()
    inner = adam(model)
    lr, momentum = (pace.outer_lr, pace.outer_momentum) if is_outer(pace) else (1.0, 0.0)
    sgd = torch.optim.SGD(
        outer.parameters(), lr=lr, momentum=momentum, nesterov=momentum > 0
    )
    per_epoch = len(batches) // epochs
    for number, batch in enumerate(batches, 1):
        inner.zero_grad()
        loss_of(model, batch).backward()
        inner.step()
        in_epoch = (number - 1) % per_epoch + 1
        if in_epoch % pace.every and in_epoch != per_epoch:
            continue
        for mine, shared in zip(model.parameters(), outer.parameters(), strict=True):
            shared.grad = shared.detach() - mine.detach()
        sgd.step()
        with torch.no_grad():
            for mine, shared in zip(model.parameters(), outer.parameters(), strict=True):
                mine.copy_(shared)
    return [one.detach() for one in outer.parameters()]


def is_outer(pace: Pace) -> Any:
    return isinstance(pace, DiLoCo)


@pytest.mark.parametrize("pace", [LocalSGD(every=7), DiLoCo(every=5), DiLoCo(every=1)])
def test_one_trainer_is_the_plain_loop_with_an_outer_optimizer(
    pace: LocalSGD | DiLoCo, run: Callable[..., list[Any]]
) -> None:
    [seen] = run(script_of(adam, epochs=2), trainers=1, pace=pace)
    assert len(seen.batches) == 2 * RECORDS // BATCH
    for value, expected in zip(seen.values, by_hand(pace, seen.batches, 2), strict=True):
        torch.testing.assert_close(value, expected, rtol=0, atol=1e-12)


def test_a_window_goes_on_into_the_next_task(run: Callable[..., list[Any]]) -> None:
    run(script_of(adam, epochs=1), trainers=1, pace=LocalSGD(every=7))
    summary = run.jobs[0].close()  # type: ignore[attr-defined]
    assert summary["steps"] == -(-RECORDS // BATCH // 7), "a round for each seven batches"
    assert summary["records"] == RECORDS


def test_all_trainers_end_with_the_same_values_and_have_learnt(
    run: Callable[..., list[Any]],
) -> None:
    found = run(script_of(adam, epochs=6), trainers=3, pace=DiLoCo(every=6))
    first, *others = found
    for other in others:
        for mine, theirs in zip(first.values, other.values, strict=True):
            assert torch.equal(mine, theirs)
    assert sum(len(seen.batches) for seen in found) == 6 * RECORDS // BATCH
    model = fresh_model()
    before = loss_of(model, columns()).item()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), first.values, strict=True):
            parameter.copy_(value)
    assert loss_of(model, columns()).item() < 0.5 * before


def test_a_local_step_each_batch_with_sgd_is_sync(run: Callable[..., list[Any]]) -> None:
    """Mean of steps of one length = a step of the mean gradient."""

    def script(session: paceline.Session) -> list[torch.Tensor]:
        model = fresh_model()
        sgd = torch.optim.SGD(model.parameters(), lr=0.05)
        optimizer = session.share(model, sgd)
        for batch in session.batches(columns(), BATCH, task_size=TASK, shuffle=False):
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            optimizer.step()
        return [one.detach().clone() for one in model.parameters()]

    [values] = run(script, trainers=1, pace=LocalSGD(every=1))
    plain = fresh_model()
    sgd = torch.optim.SGD(plain.parameters(), lr=0.05)
    features, target = columns()
    for first in range(0, RECORDS, BATCH):
        sgd.zero_grad()
        loss_of(
            plain, (features[first : first + BATCH], target[first : first + BATCH])
        ).backward()
        sgd.step()
    for value, expected in zip(values, plain.parameters(), strict=True):
        torch.testing.assert_close(value, expected.detach(), rtol=0, atol=1e-12)


def test_gradients_that_are_not_finite_are_not_stepped_on(
    run: Callable[..., list[Any]],
) -> None:
    def script(session: paceline.Session) -> bool:
        model = fresh_model()
        optimizer = session.share(model, adam(model))
        for number, batch in enumerate(session.batches(columns(), BATCH, task_size=TASK)):
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            (loss * float("nan") if number == 3 else loss).backward()
            optimizer.step()
        return all(bool(torch.isfinite(one).all()) for one in model.parameters())

    assert run(script, trainers=1, pace=DiLoCo(every=4)) == [True]
    assert run.jobs[0].close()["records"] == RECORDS  # type: ignore[attr-defined]


class WithRows(nn.Module):
    """An embedding in front of a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = paceline.Embedding("rows", 4)
        self.linear = nn.Linear(4, 1)


def test_rows_are_refused_unless_they_are_a_part_of_their_own(
    run: Callable[..., list[Any]],
) -> None:
    def script(session: paceline.Session) -> None:
        model = WithRows()
        with pytest.raises(paceline.UsageError, match="share embeddings first"):
            session.share(model, adam(model))
        session.share(model.rows, pace=paceline.Async())
        optimizer = session.share(model, adam(model))
        ids = torch.arange(RECORDS)
        for batch in session.batches(ids, BATCH, task_size=TASK):
            optimizer.zero_grad()
            model.linear(model.rows(batch)).sum().backward()
            optimizer.step()

    run(script, trainers=2, pace=LocalSGD(every=5))
    assert run.jobs[0].close()["records"] == RECORDS  # type: ignore[attr-defined]

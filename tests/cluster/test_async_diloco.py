"""Asynchronous DiLoCo: one trainer is the paper's loop by hand; several learn together."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from paceline.config import AsyncDiLoCo
from tests.cluster.test_local_steps import (
    BATCH,
    RECORDS,
    Seen,
    adam,
    columns,
    fresh_model,
    loss_of,
    script_of,
)


def by_hand(pace: AsyncDiLoCo, batches: list[Any], epochs: int) -> list[torch.Tensor]:
    """Local steps, and after each delta one step of the paper's algorithm 3."""
    model, inner_epoch = fresh_model(), len(batches) // epochs
    inner = adam(model)
    shared = [one.detach().clone() for one in model.parameters()]
    moments = [torch.zeros_like(one) for one in shared]
    sums = [torch.zeros_like(one) for one in shared]
    lr, beta, n, pushes, since = pace.outer_lr, pace.outer_momentum, pace.delay, 0, 0
    for number, batch in enumerate(batches, 1):
        inner.zero_grad()
        loss_of(model, batch).backward()
        inner.step()
        since += 1
        if since < pace.every and number % inner_epoch:
            continue
        pushes, since = pushes + 1, 0
        with torch.no_grad():
            for mine, theta, m, total in zip(
                model.parameters(), shared, moments, sums, strict=True
            ):
                delta = theta - mine
                total += delta
                theta -= lr * delta / n
                if pushes % n == 0:
                    m.mul_(beta).add_(total / n)
                    total.zero_()
                    theta -= lr * beta * m
                mine.copy_(theta)
    return shared


@pytest.mark.parametrize("delay", [1, 3])
def test_one_trainer_is_the_papers_loop(delay: int, run: Callable[..., list[Any]]) -> None:
    pace = AsyncDiLoCo(every=5, delay=delay)
    [seen] = run(script_of(adam, epochs=2), trainers=1, pace=pace)
    assert len(seen.batches) == 2 * RECORDS // BATCH
    for value, expected in zip(seen.values, by_hand(pace, seen.batches, 2), strict=True):
        torch.testing.assert_close(value, expected, rtol=0, atol=1e-12)


def test_several_trainers_learn_and_end_alike(run: Callable[..., list[Any]]) -> None:
    found: list[Seen] = run(
        script_of(adam, epochs=6), trainers=3, pace=AsyncDiLoCo(every=6, delay=3)
    )
    first, *others = found
    for other in others:
        for mine, theirs in zip(first.values, other.values, strict=True):
            assert torch.equal(mine, theirs)
    assert run.jobs[0].close()["records"] == 6 * RECORDS  # type: ignore[attr-defined]
    model = fresh_model()
    before = loss_of(model, columns()).item()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), first.values, strict=True):
            parameter.copy_(value)
    assert loss_of(model, columns()).item() < 0.5 * before

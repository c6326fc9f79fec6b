"""`sync` is a bound of nothing and the mean over all, whoever writes it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.nn import functional

import paceline
from paceline.config import Sync

TRAINERS, BATCH, TASK, RECORDS, EPOCHS = 3, 4, 12, 72, 2


class Marched(NamedTuple):
    """What one trainer was delivered, by the round that it pushed for, and the end."""

    batches: dict[int, torch.Tensor]
    values: list[torch.Tensor]


def data() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(3)
    features = torch.randn(RECORDS, 5, generator=draw)
    return features, features.sum(1, keepdim=True).sin()


def network() -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
    draw = torch.Generator().manual_seed(11)  # of its own: trainers are threads here
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.4, 0.4, generator=draw)
    return model


def gradients(model: nn.Module, rows: torch.Tensor) -> list[torch.Tensor]:
    features, targets = data()
    model.zero_grad()
    functional.mse_loss(model(features[rows]), targets[rows]).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]  # type: ignore[union-attr]


def by_hand(rounds: list[list[torch.Tensor]], make: Any) -> list[torch.Tensor]:
    """All wait for all; one step on the mean of their gradients."""
    model = network()
    optimizer = make(model.parameters())
    for batches in rounds:
        pushed = [gradients(model, rows) for rows in batches]
        for i, parameter in enumerate(model.parameters()):
            weight = 1 / len(pushed)
            mean = pushed[0][i] * weight
            for one in pushed[1:]:
                mean.add_(one[i], alpha=weight)
            parameter.grad = mean
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, fused=True),
        lambda parameters: torch.optim.Adam(parameters, lr=0.01, fused=True),
    ],
    ids=["SGD", "Adam"],
)
def test_waiting_for_all_and_taking_the_mean_is_sync_to_the_bit(
    make: Any, run: Callable[..., list[Any]]
) -> None:
    def script(session: paceline.Session) -> Marched:
        model, batches = network(), {}
        protocol = session.membership._protocol
        optimizer = session.share(model, make(model.parameters()))
        rows = torch.arange(RECORDS)
        for batch in session.batches(rows, BATCH, epochs=EPOCHS, task_size=TASK):
            for parameter, gradient in zip(
                model.parameters(), gradients(model, batch), strict=True
            ):
                parameter.grad = gradient
            batches[protocol.parts[0].round] = batch
            optimizer.step()
        return Marched(batches, [p.detach().clone() for p in model.parameters()])

    found: list[Marched] = run(script, trainers=TRAINERS, pace=Sync())
    last = max(max(one.batches) for one in found)
    rounds = [[o.batches[r] for o in found if r in o.batches] for r in range(1, last + 1)]
    assert sum(map(len, rounds)) == RECORDS * EPOCHS // BATCH
    assert max(map(len, rounds)) > 1, "some rounds are of several"
    for one in found:
        for ours, theirs in zip(one.values, by_hand(rounds, make), strict=True):
            assert torch.equal(ours, theirs)

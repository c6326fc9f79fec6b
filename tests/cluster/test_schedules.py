"""Learning rates that follow the job, with trainers in threads."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.config import Pace, Sync, parse_pace

RECORDS, BATCH, EPOCHS = 96, 4, 2


def fading(records: int) -> float:
    """From 1 to nothing over the whole job."""
    return 1 - records / (RECORDS * EPOCHS)


class Slope(nn.Module):
    """A number whose gradient is always 1: it says how far all steps have led."""

    def __init__(self) -> None:
        super().__init__()
        self.way = nn.Parameter(torch.zeros(3, dtype=torch.float64))


def descend(session: paceline.Session) -> tuple[list[float], torch.Tensor]:
    """The rate of each own step, and where all have come to."""
    model = Slope()
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    session.schedule(optimizer, fading)
    rates = []
    data = torch.arange(RECORDS)
    for _ in session.batches(data, BATCH, epochs=EPOCHS, task_size=4 * BATCH):
        optimizer.zero_grad()
        model.way.sum().backward()
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
    return rates, -model.way.detach().clone()


def test_all_steps_of_a_round_have_the_rate_of_what_the_job_has_trained(
    run: Callable[..., list[Any]],
) -> None:
    found = run(descend, trainers=3, pace=Sync())
    rounds = sorted({rate for rates, _ in found for rate in rates}, reverse=True)
    for rates, way in found:
        assert rates == sorted(rates, reverse=True)
        # One update a round, whatever the number in it: the mean of equal gradients.
        assert way == pytest.approx([sum(rounds)] * 3)
    assert rounds[0] == 1.0
    assert 0 < rounds[-1] <= fading(RECORDS * EPOCHS - 3 * BATCH)


@pytest.mark.parametrize("text", ["async", "ssp:1", "async:push=2,pull=4"])
def test_steps_that_are_applied_at_once_have_the_rate_that_was_due(
    text: str, run: Callable[..., list[Any]]
) -> None:
    pace: Pace = parse_pace(text)
    found = run(descend, trainers=3, pace=pace)
    taken = [rate for rates, _ in found for rate in rates]
    assert len(taken) == RECORDS * EPOCHS // BATCH
    assert all(0 < rate <= 1.0 for rate in taken)
    if "push" not in text:  # the rate of a push is that of its last batch
        assert found[0][1] == pytest.approx([sum(taken)] * 3)


def test_one_trainer_alone_has_the_plain_loops_rates(
    run: Callable[..., list[Any]],
) -> None:
    [(rates, _)] = run(descend, trainers=1, pace=Sync())
    steps = RECORDS * EPOCHS // BATCH
    assert rates == [fading(step * BATCH) for step in range(steps)]

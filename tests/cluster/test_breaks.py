"""A loop that is left by `break`, in a job whose older parts it has not stepped."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.config import Async, Pace, Sync
from tests.cluster.together import shared

Run = Callable[..., list[Any]]
DATA = torch.arange(24.0).reshape(24, 1)


@pytest.mark.parametrize("pace", [Sync(), Async(), Async(push_every=4)], ids=str)
def test_what_was_stepped_counts_beside_an_older_part(run: Run, pace: Pace) -> None:
    def script(session: paceline.Session) -> tuple[int, float]:
        old = nn.Linear(1, 1)
        shared(session, old)
        new = nn.Linear(1, 1, bias=False)
        optimizer = torch.optim.SGD(new.parameters(), lr=1.0, maximize=True)
        stepped = session.share(new, optimizer)
        with torch.no_grad():
            began = new.weight.item()
        batches = session.batches(DATA, 2, shuffle=False, task_size=12)
        for number, batch in enumerate(batches):
            if number == 3:
                break
            new(batch).sum().backward()
            stepped.step()
            stepped.zero_grad()
        batches.close()
        return session.records, new.weight.item() - began

    assert run(script, trainers=1, pace=pace) == [(6, pytest.approx(sum(range(6))))]

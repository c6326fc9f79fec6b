"""Trainers that march by a class of the user's."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import paceline
from paceline.config import SGD, Pace, Zeros

PAGE = Path(__file__).parents[2] / "docs" / "paces.md"
RECORDS, BATCH, EPOCHS = 120, 4, 2


def of_the_page() -> type[paceline.Strategy]:
    """The class that the docs show, as a reader would copy it."""
    text = PAGE.read_text(encoding="utf-8")
    [code] = [
        c for c in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "Strategy" in c
    ]
    names: dict[str, Any] = {}
    exec(code, names)  # it is our own page
    found: type[paceline.Strategy] = names["Loosening"]
    return found


class GrowingWindows(paceline.Strategy):
    """Three batches a push; values are fetched behind every other."""

    preset: ClassVar[Pace] = paceline.Async()

    def push_due(self, num_batches: int) -> bool:
        return num_batches >= 3

    def pull_due(self, num_batches: int, *, has_pushed: bool) -> bool:
        return has_pushed and num_batches >= 4


class WideRounds(paceline.Strategy):
    """Rounds of two batches each."""

    preset: ClassVar[Pace] = paceline.Sync(reduce="sum")

    def push_due(self, num_batches: int) -> bool:
        return num_batches >= 2


def count(session: paceline.Session, strategy: paceline.Strategy) -> torch.Tensor:
    """Each record once in its own row and once in the dense parameter."""
    model = nn.Module()
    model.all = nn.Parameter(torch.zeros(2, dtype=torch.float64))
    model.seen = paceline.Embedding("seen", 1, optimizer=SGD(lr=1.0), init=Zeros())
    optimizer = session.share(model, torch.optim.SGD([model.all], lr=1.0), pace=strategy)
    ids = torch.arange(RECORDS)
    for batch in session.batches(ids, BATCH, epochs=EPOCHS, task_size=5 * BATCH):
        optimizer.zero_grad()
        (len(batch) * model.all.sum() + model.seen(batch).sum()).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return torch.cat([model.all.detach().clone(), model.seen(ids).flatten()])


@pytest.mark.parametrize("name", ["of the page", "growing windows", "wide rounds"])
def test_every_record_counts_once(name: str, run: Callable[..., list[Any]]) -> None:
    def script(session: paceline.Session) -> torch.Tensor:
        if name == "of the page":
            made: paceline.Strategy = of_the_page()(after=5, then=3)  # type: ignore[call-arg]
        else:
            made = GrowingWindows() if name == "growing windows" else WideRounds()
        return count(session, made)

    for found in run(script, trainers=3):
        assert (found[:2] == -RECORDS * EPOCHS).all()
        assert (found[2:] == -EPOCHS).all()


def test_trainers_with_different_strategies_are_told_both(
    run: Callable[..., list[Any]],
) -> None:
    found = of_the_page()
    thens = iter([3, 4])

    def script(session: paceline.Session) -> None:
        model = nn.Linear(2, 1)
        made = found(after=5, then=next(thens))  # type: ignore[call-arg]
        session.share(model, torch.optim.SGD(model.parameters(), lr=1.0), pace=made)

    with pytest.raises(paceline.UsageError, match=r"Loosening\(after=5, then=[34]\)"):
        run(script, trainers=2)

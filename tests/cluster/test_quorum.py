"""Rounds with a quorum in a real job: every delta counts once, whoever is behind."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.config import DiLoCo
from paceline.coordinator.durable.outcomes import AnyOutcome, RoundCommitted
from paceline.coordinator.ledgers.book import Book

RECORDS, BATCH, TASK, EPOCHS = 240, 4, 20, 2


class Counting(nn.Module):
    """A number that local steps move by the records of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Parameter(torch.zeros(2, dtype=torch.float64))


def count(session: paceline.Session) -> torch.Tensor:
    model = Counting()
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    is_slow = session.once("slow")
    for batch in session.batches(
        torch.arange(RECORDS), BATCH, epochs=EPOCHS, task_size=TASK
    ):
        if is_slow:
            time.sleep(0.01)
        optimizer.zero_grad()
        (-len(batch) * model.all.sum()).backward()
        optimizer.step()
    return model.all.detach().clone()


@pytest.mark.parametrize("quorum", [1, 2])
def test_every_delta_moves_the_model_once_and_by_its_records(
    quorum: int, run: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delta is as long as its records, and weighs as much: a sum of squares is exact."""
    committed: list[RoundCommitted] = []
    note_rounds(committed, monkeypatch)
    pace = DiLoCo(every=3, outer_lr=1.0, outer_momentum=0.0, quorum=quorum, grace=0.0)
    found = run(count, pace=pace)
    summary = run.jobs[0].close()  # type: ignore[attr-defined]
    assert summary["records"] == RECORDS * EPOCHS
    windows = [c.window for one in committed for c in one.contributions]
    assert len(windows) == len(set(windows)), "a delta was in two rounds"
    batches = [
        (window.epoch, span.task, batch)
        for window in windows
        for span in window.spans
        for batch in range(span.first, span.last + 1)
    ]
    assert sorted(batches) == [
        (epoch, task, batch)
        for epoch in range(EPOCHS)
        for task in range(RECORDS // TASK)
        for batch in range(TASK // BATCH)
    ]
    moved = sum(c.weight * c.records for one in committed for c in one.contributions)
    for values in found:
        torch.testing.assert_close(values, torch.full_like(values, moved))
    assert any(len(one.contributions) < 3 for one in committed), "nobody was behind"


def note_rounds(committed: list[RoundCommitted], monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what every round of the job was."""
    commit = Book.commit

    def noted(book: Book, outcome: AnyOutcome) -> None:
        if isinstance(outcome, RoundCommitted):
            committed.append(outcome)
        commit(book, outcome)

    monkeypatch.setattr(Book, "commit", noted)

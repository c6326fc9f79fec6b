"""Three trainers, of which a round needs two: every record counts, or is counted late."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.config import SGD, Pace, Sync, Zeros

RECORDS, BATCH, EPOCHS = 240, 4, 2


class Counting(nn.Module):
    """A number that counts all records, and a row for each that counts its own."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.seen = paceline.Embedding("seen", 1, optimizer=SGD(lr=1.0), init=Zeros())


def count(session: paceline.Session) -> tuple[float, float, int]:
    """What all have counted, and how many records this trainer has stepped on."""
    model = Counting()
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    ids, stepped = torch.arange(RECORDS), 0
    is_slow = session.once("slow")
    for batch in session.batches(ids, BATCH, epochs=EPOCHS, task_size=5 * BATCH):
        if is_slow:
            time.sleep(0.01)
        (len(batch) * model.all.sum() + model.seen(batch).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
        stepped += len(batch)
    model.eval()
    with torch.no_grad():
        return -float(model.all), -float(model.seen(ids).sum()), stepped


@pytest.mark.parametrize("late", ["drop", "again"])
def test_every_record_counts_once_or_is_counted_late(
    late: str, run: Callable[..., list[Any]]
) -> None:
    pace: Pace = Sync(reduce="sum", backup=1, late=late)  # type: ignore[arg-type]
    found = run(count, pace=pace)
    summary = run.jobs[0].close()  # type: ignore[attr-defined]
    num_late = summary["counters"].get("late_records", 0)
    assert num_late > 0, "the slow trainer was never late"
    total = RECORDS * EPOCHS
    stepped = sum(one for *_, one in found)
    for dense, rows, _ in found:
        assert dense == rows
        if late == "drop":
            assert dense == total - num_late
            assert stepped == total
        else:
            assert dense == total
            assert stepped == total + num_late
    assert summary["records"] == total


def test_a_part_that_goes_back_to_the_queue_goes_alone(
    run: Callable[..., list[Any]],
) -> None:
    def script(session: paceline.Session) -> None:
        for _ in range(2):
            model = nn.Linear(2, 1)
            session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))

    with pytest.raises(paceline.UsageError, match="share one part, or let late pushes"):
        run(script, trainers=1, pace=Sync(backup=1, late="again"))

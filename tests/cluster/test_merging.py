"""Three trainers whose pushes may be merged count every record once."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import paceline
from paceline.config import SGD, Async, Zeros

RECORDS, BATCH, EPOCHS = 240, 4, 3


class Counting(nn.Module):
    """A number that counts all records, and a row for each that counts its own."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.seen = paceline.Embedding("seen", 1, optimizer=SGD(lr=1.0), init=Zeros())


def test_merged_pushes_count_every_record_once(run: Callable[..., list[Any]]) -> None:
    def script(session: paceline.Session) -> tuple[float, list[float]]:
        model = Counting()
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
        ids = torch.arange(RECORDS)
        for batch in session.batches(ids, BATCH, epochs=EPOCHS, task_size=BATCH):
            (len(batch) * model.all.sum() + model.seen(batch).sum()).backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            return float(model.all), model.seen(ids).flatten().tolist()

    for counted, seen in run(script, pace=Async(merge=4)):
        assert counted == -RECORDS * EPOCHS
        assert seen == [-float(EPOCHS)] * RECORDS

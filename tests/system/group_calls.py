"""Every call of a session, made by all processes of a trainer; what each was told."""

import json
import os
import sys
from pathlib import Path

import torch
import torchmetrics
from torch import Tensor, nn
from torch.utils.data import Dataset

import paceline

RECORDS, BATCH, BAD = 96, 4, 37


class Flaky(Dataset[Tensor]):
    """One record cannot be read."""

    def __len__(self) -> int:
        """All."""
        return RECORDS

    def __getitem__(self, index: int) -> Tensor:
        """A record."""
        if index == BAD:
            raise ValueError("this record is broken")
        return torch.tensor([float(index)])


def main(out: Path) -> None:
    """Train, evaluate, predict, stop; write down what was seen."""
    found: dict[str, object] = {}
    number = int(os.environ["PACELINE_RANK"])
    session = paceline.connect()
    model = nn.Linear(1, 1)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1e-6))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    session.track(scheduler=scheduler)
    data = torch.arange(float(RECORDS))[:, None]

    def train(features: Tensor) -> None:
        model(features).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    for count, features in enumerate(session.batches(data, BATCH, seed=1)):
        train(features)
        session.log(**{f"count {number}": count})
        if count == 2:
            session.save()
        scheduler.step()
    found["records"] = session.records
    found["trainers"] = session.num_trainers
    found["rate"] = optimizer.param_groups[0]["lr"]
    mean = session.evaluate(torchmetrics.MeanMetric(), lambda b: b, data, batch_size=8)
    found["mean"] = mean.item()
    session.predict(lambda batch: batch * 2, data, str(out / "predictions"))
    seen = 0
    for count, features in enumerate(session.batches(data, BATCH, seed=2)):
        train(features)
        seen += 1
        if number == 0 and count == 1:
            break
    found["before the break"] = seen
    for features in session.batches(Flaky(), BATCH, shuffle=False, task_size=4 * BATCH):
        train(features)
    found["after the flaky"] = session.records
    for count, features in enumerate(session.batches(data, BATCH, epochs=1000)):
        train(features)
        if number == 1 and count == 3:
            session.stop("rank 1 has seen enough")
    found["weight"] = model.weight.item()
    (out / f"{number}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A script that trains until it stops early, then evaluates and predicts, slowly.

Its verdict: whether both are what one process makes of the whole data set.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from torchmetrics.classification import MulticlassConfusionMatrix

import paceline

RECORDS, BATCH, TASK, CLASSES = 960, 8, 32, 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    torch.manual_seed(0)
    data = torch.randn(RECORDS, 4), torch.randint(CLASSES, (RECORDS,))
    ids = torch.arange(RECORDS) % 50
    session = paceline.connect()
    model = nn.Linear(4, CLASSES)
    rows = paceline.Embedding("rows", CLASSES, optimizer=paceline.Adagrad(lr=0.05))
    whole = nn.ModuleList([model, rows])
    optimizer = session.share(whole, torch.optim.SGD(model.parameters(), lr=0.1))

    def scores(batch: Any) -> torch.Tensor:
        return model(batch[0]) + rows(batch[2])

    for batch in session.batches((*data, ids), BATCH, epochs=50):
        nn.functional.cross_entropy(scores(batch), batch[1]).backward()
        optimizer.step()
        optimizer.zero_grad()
        if session.records >= 100:
            session.stop("good enough")

    def step(batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(0.01)
        return scores(batch), batch[1]

    metric = MulticlassConfusionMatrix(CLASSES)
    sizes = {"batch_size": BATCH, "task_size": TASK}
    value = session.evaluate(metric, step, (*data, ids), **sizes)
    folder = flags.out.parent / "predictions"
    session.predict(lambda batch: step(batch)[0], (*data, ids), folder, **sizes)

    if session.once("verdict"):
        listing = json.loads((folder / "predictions.json").read_text())
        names = [file["name"] for file in listing["files"]]
        found = torch.cat([load_file(folder / name)["predictions"] for name in names])
        metric.update(found, data[1])
        whole.eval()
        with torch.no_grad():
            expected = scores((*data, ids))
        verdict = {
            "counts": value.tolist(),
            "expected": metric.compute().tolist(),
            "is_close": torch.allclose(found, expected, rtol=1e-4, atol=1e-5),
            "files": len(list(folder.glob("part-*"))),
            "listed": len(names),
        }
        flags.out.write_text(json.dumps(verdict))


if __name__ == "__main__":
    main()

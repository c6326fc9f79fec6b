"""Layers are unfrozen one after the other; each counts the records since it was.

Between two phases the model is unshared and shared again: a process that dies passes over
the phases that are over, whose parts have ended, and must find what they came to.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from torch import nn

import paceline

PHASES = 4


class Layers(nn.Module):
    """One counter a layer, none of which is trained yet."""

    def __init__(self) -> None:
        super().__init__()
        one = [torch.zeros(1, dtype=torch.float64) for _ in range(PHASES)]
        self.layers = nn.ParameterList([nn.Parameter(p, requires_grad=False) for p in one])

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return -batch.sum() * torch.stack(list(self.layers)).sum()


def main() -> None:
    parse = argparse.ArgumentParser()
    parse.add_argument("--records", type=int, default=480)
    parse.add_argument("--sleep-ms", type=float, default=0.0)
    parse.add_argument("--out", type=Path, required=True)
    flags = parse.parse_args()
    data = torch.arange(flags.records, dtype=torch.float64)
    total = float(data.sum())
    session, model, found = paceline.connect(), Layers(), []
    for phase in range(PHASES):
        model.layers[phase].requires_grad_(requires_grad=True)
        own = [layer for layer in model.layers if layer.requires_grad]
        optimizer = session.share(model, torch.optim.SGD(own, lr=1.0))
        for batch in session.batches(data, batch_size=4, task_size=40):
            time.sleep(flags.sleep_ms / 1000)
            model(batch).backward()
            optimizer.step()
            optimizer.zero_grad()
        session.unshare(model)
        found.append([layer.item() / total for layer in model.layers])
    expected = [[max(p + 1.0 - k, 0.0) for k in range(PHASES)] for p in range(PHASES)]
    if session.once("told"):
        verdict = {"exact": found == expected, "found": found}
        flags.out.write_text(json.dumps(verdict))
    if found != expected:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

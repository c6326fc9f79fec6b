"""A script with a side of its own: scheduler, EMA, BatchNorm, accumulation, `break`.

Scheduler and EMA step within loops and behind them.

With ``--plain`` the same loop without paceline: what everything else must equal.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

BATCH, RECORDS, ACCUMULATE, STOP_AT = 4, 96, 2, 7


class Count:
    """A counter that goes back with everything else."""

    def __init__(self) -> None:
        self.batches = 0

    def state_dict(self) -> dict[str, int]:
        return {"batches": self.batches}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.batches = state["batches"]


def values_of(**modules: nn.Module) -> dict[str, Any]:
    """All numbers of these, by name."""
    return {
        f"{name}/{key}": value.tolist()
        for name, module in modules.items()
        for key, value in module.state_dict().items()
    }


def batches_of(
    data: tuple[torch.Tensor, ...],
    epochs: int,
    session: Any,
) -> Iterator[Any]:
    if session is not None:
        yield from session.batches(data, batch_size=BATCH, epochs=epochs, shuffle=False)
        return
    for _ in range(epochs):
        yield from zip(*(column.split(BATCH) for column in data), strict=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--slow", action="store_true", help="so that there are cuts")
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    torch.manual_seed(0)
    data = (torch.randn(RECORDS, 6), torch.randn(RECORDS, 1))
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    average = AveragedModel(model)
    optimizer: Any = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    session: Any = None
    if not flags.plain:
        import paceline  # noqa: PLC0415  (the plain loop runs without it)

        session = paceline.connect()
        optimizer = session.share(model, optimizer)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)
    count = Count()
    if session is not None:
        session.track(scheduler=scheduler, average=average, count=count)

    def train(epochs: int, stop_at: int | None) -> None:
        for features, wanted in batches_of(data, epochs, session):
            time.sleep(0.02 * flags.slow)
            loss = nn.functional.mse_loss(model(features), wanted)
            (loss / ACCUMULATE).backward()
            count.batches += 1
            if count.batches % ACCUMULATE:
                continue
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            average.update_parameters(model)
            if stop_at is not None and scheduler.last_epoch >= stop_at:
                break

    def go_on() -> None:
        """What a script does once an epoch, behind its loop."""
        scheduler.step()
        average.update_parameters(model)

    train(1, STOP_AT)
    go_on()
    train(2, None)
    go_on()
    train(1, None)
    if session is None or session.once("report"):
        told = {"steps": scheduler.last_epoch, "lr": scheduler.get_last_lr()}
        values = {**values_of(model=model, average=average), **told}
        flags.out.write_text(json.dumps(values))


if __name__ == "__main__":
    main()

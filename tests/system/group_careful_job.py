"""A loop that scales its loss, clips its gradients and adds up several batches to a step.

Two of its batches overflow; each process writes its model, its scale and what was refused.
"""

import os
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.amp import GradScaler

import paceline

RECORDS, BATCH, SCALE = 96, 4, 2.0**10
BAD = (17, 45)  # records: of the first rank's batches, and of the second's
CLIP = 2.5
WIDE = 1 << 20  # elements of float64: 4 MiB at each of two servers


def make_data() -> tuple[Tensor, Tensor]:
    """Records' numbers, and features."""
    draw = torch.Generator().manual_seed(7)
    features = torch.randn(RECORDS, 3, generator=draw, dtype=torch.float64)
    return torch.arange(RECORDS), features


class Model(nn.Module):
    """Few numbers or many; the loss is steep enough for gradients to be clipped."""

    def __init__(self, *, is_wide: bool) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.layer = nn.Linear(3, 2, dtype=torch.float64)
        self.wide = nn.Parameter(torch.ones(WIDE if is_wide else 8, dtype=torch.float64))

    def forward(self, features: Tensor) -> Tensor:
        """The loss of a batch."""
        wide = self.wide.mean() * features.sum(1, keepdim=True)
        return (self.layer(features) + wide - 1.0).square().mean()


def overflows(numbers: Tensor) -> bool:
    """Whether a batch is one that overflows."""
    return any(bad in numbers for bad in BAD)


def main(out: Path, is_wide: bool, accumulate: int, is_scaled: bool) -> None:
    """Train an epoch; every process writes what it has."""
    session = paceline.connect()
    model = Model(is_wide=is_wide)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.05))
    scaler = GradScaler("cpu", init_scale=SCALE, enabled=is_scaled)
    batches = session.batches(
        make_data(), BATCH, shuffle=False, task_size=4 * accumulate * BATCH
    )
    for count, (numbers, features) in enumerate(batches, 1):
        loss = model(features) / accumulate
        if is_scaled and overflows(numbers):
            loss = loss * torch.inf
        scaler.scale(loss).backward()
        if count % accumulate:
            continue
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    found = dict(model.state_dict())
    found["scale"] = torch.tensor(scaler.get_scale())
    place = f"{os.environ['PACELINE_ROLE']}.{os.environ['PACELINE_RANK']}"
    save_file(found, out / f"{place}.safetensors")


if __name__ == "__main__":
    main(
        Path(sys.argv[1]), sys.argv[2] == "wide", int(sys.argv[3]), sys.argv[4] == "scaled"
    )

"""A trainer's ranks with parameters on GPUs: real ones, or the CPU under their names."""

import datetime as dt
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import distributed, nn

import paceline
from paceline.trainer.group import collectives as group_tensors

RECORDS, BATCH = 104, 4


class PretendedGpus:
    """The CPU: for each rank a GPU of its own, or the same for all."""

    def __init__(self, out: Path, *, is_shared: bool) -> None:
        self._out = out
        self._number = "0" if is_shared else os.environ["PACELINE_RANK"]

    def can_connect(self) -> bool:
        """They can."""
        return True

    def name(self, device: torch.device) -> str:
        """Each process names its own."""
        assert device.type == "cpu"
        return f"GPU-{self._number}"

    def connect(
        self, device: torch.device, timeout: dt.timedelta
    ) -> distributed.ProcessGroup:
        """Connect as the CPU is, a second time; a file tells of it."""
        (self._out / f"connected.{self._number}").write_text(str(device))
        return distributed.new_group(backend="gloo", timeout=timeout)


def make_data() -> tuple[torch.Tensor, torch.Tensor]:
    """Features and targets."""
    draw = torch.Generator().manual_seed(5)
    features = torch.randn(RECORDS, 5, generator=draw, dtype=torch.float64)
    return features, torch.randn(RECORDS, 1, generator=draw, dtype=torch.float64)


def main(out: Path, gpus: str, task_size: int) -> None:
    """Train an epoch; every process writes what it has."""
    if gpus != "cuda":
        pretended = PretendedGpus(out, is_shared=gpus == "shared")
        if gpus != "none":
            group_tensors.CudaGpus = lambda: pretended
    device = torch.device("cuda" if gpus == "cuda" else "cpu")
    session = paceline.connect()
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model.to(device)  # after it is shared: where it lies when the loop begins counts
    batches = session.batches(make_data(), BATCH, seed=11, task_size=task_size)
    for features, target in batches:
        found = model(features.to(device))
        nn.functional.mse_loss(found, target.to(device)).backward()
        optimizer.step()
        optimizer.zero_grad()
    values = {name: value.cpu() for name, value in model.state_dict().items()}
    where = f"{os.environ['PACELINE_ROLE']}.{os.environ['PACELINE_RANK']}"
    save_file(values, out / f"{where}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))

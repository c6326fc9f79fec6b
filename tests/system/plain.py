"""The other side of the comparison: a script's own loop without paceline.

`PlainSession` is what a script gets instead of a session: its optimizer back, batches of
the same records in the same order, and a list of what it logs. So the very same script is
an ordinary PyTorch loop.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from paceline.data.opening import open_source
from paceline.data.order import records_at
from paceline.data.split import batch_positions, default_task_size, task_positions
from paceline.messages.shared import StageSpec

Curves = dict[str, list[float]]  # {what was logged: its values}


class PlainSession:
    """Nothing is shared; one process, one model, the optimizer as torch has it.

    Args:
        fused: step by torch's fused kernels where it has them, as servers do.
    """

    def __init__(self, *, fused: bool) -> None:
        self.curves: Curves = defaultdict(list)
        self._fused = fused
        self._num_stages = 0

    def share(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer
    ) -> torch.optim.Optimizer:
        assert any(True for _ in model.parameters())
        for group in optimizer.param_groups:
            if self._fused and "fused" in group:
                group["fused"] = True
        return optimizer

    def batches(
        self,
        dataset: Any,
        batch_size: int,
        *,
        epochs: int = 1,
        seed: int = 0,
        workers: int = 0,
    ) -> Iterator[Any]:
        assert workers >= 0
        source = open_source(dataset)
        count = len(source)
        size = default_task_size(count, batch_size)
        stage = self._num_stages
        spec = StageSpec(stage, count, batch_size, size, epochs, True, seed, "")
        self._num_stages += 1
        for epoch in range(epochs):
            for task in range(spec.num_tasks()):
                for batch in range(spec.num_batches(task)):
                    first, _ = task_positions(spec, task)
                    start, stop = batch_positions(spec, task, batch)
                    assert start >= first
                    positions = np.arange(start, stop)
                    yield source.batch(records_at(positions, count, seed, epoch, True))

    def log(self, **numbers: float) -> None:
        for name, number in numbers.items():
            self.curves[name].append(number)

    def once(self, name: str) -> bool:
        return bool(name)

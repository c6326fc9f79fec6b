"""Ways to do parts of a synchronous step, against the way it is done: no job, one process.

::

    python -m benchmarks.dense_parts

    gradients   forward, backward and what a push copies: gradients left by autograd, kept,
                as views into one flat buffer, and that buffer as the mailbox itself
    a round     sum of two gradients and Adam on all blocks: by one thread, by that and
                a second one, and in pieces that stay in a core's own cache

All on the network of `benchmarks.dense`. Gradients are compared by processor time, rounds
by the time that a trainer waits. Candidates take turns, and each is checked first: the same
bits in the end. Figures are medians and, in brackets, the best tenth.
"""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.dense_loops import CLASSES, FEATURES, make_model
from paceline.params import fused
from paceline.params.dense import OptimizeBlock, weighted_sum
from paceline.server.slots.slots import SlotQueue
from paceline.server.slots.threads import SlotRunners

TIMES = 200
PIECE = 1 << 16  # elements: three arrays of these fit a cache of 1 MiB
WEIGHTS = (0.5, 0.5)
HYPER = {"lr": 1e-3}


class Taken(NamedTuple):
    """What a candidate took: seconds, ascending."""

    name: str
    seconds: list[float]

    def __str__(self) -> str:
        """One line."""
        median, best = (1000 * self.seconds[len(self.seconds) // part] for part in (2, 10))
        return f"  {self.name:32s} {median:6.2f} ms  ({best:.2f})"


def compare(
    candidates: dict[str, Callable[[], None]], clock: Callable[[], float]
) -> list[Taken]:
    """Time candidates in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(TIMES):
        for name, candidate in candidates.items():
            begun = clock()
            candidate()
            seconds[name].append(clock() - begun)
    return [Taken(name, sorted(found)) for name, found in seconds.items()]


# ------------------------------------------------------------ gradients


class Side:
    """A model whose gradients end in ``box``, as a push leaves them in the mailbox."""

    def __init__(self, batch: int, *, is_kept: bool, is_flat: bool, is_box: bool) -> None:
        """Make one; gradients are kept, in a flat buffer, or in the box itself."""
        self.model = make_model()
        draw = torch.Generator().manual_seed(0)
        self._features = torch.randn(batch, FEATURES, generator=draw)
        self._labels = torch.randint(0, CLASSES, (batch,), generator=draw)
        self._parameters = list(self.model.parameters())
        sizes = [parameter.numel() for parameter in self._parameters]
        self.box = torch.zeros(sum(sizes))
        self._is_kept = is_kept
        self._places = self.box.split(sizes)
        self._flat: Tensor | None = None
        if is_flat:
            self._flat = self.box if is_box else torch.zeros_like(self.box)
            for parameter, place in zip(
                self._parameters, self._flat.split(sizes), strict=True
            ):
                parameter.grad = place.view_as(parameter)

    def compute(self) -> None:
        """Forward, backward, and the copy of a push."""
        nn.functional.cross_entropy(self.model(self._features), self._labels).backward()
        if self._flat is None:
            for place, parameter in zip(self._places, self._parameters, strict=True):
                assert parameter.grad is not None
                np.copyto(place.numpy(), parameter.grad.view(-1).numpy())
        elif self._flat is not self.box:
            np.copyto(self.box.numpy(), self._flat.numpy())

    def step(self) -> None:
        """Compute, then zero the gradients."""
        self.compute()
        if self._flat is not None:
            self._flat.zero_()
        else:
            self.model.zero_grad(set_to_none=not self._is_kept)


def compare_gradients(batch: int) -> list[Taken]:
    """Processor time of a trainer's own part of a step."""
    sides = {
        "left by autograd, copied": Side(batch, is_kept=False, is_flat=False, is_box=False),
        "kept, copied": Side(batch, is_kept=True, is_flat=False, is_box=False),
        "kept, flat, one copy": Side(batch, is_kept=True, is_flat=True, is_box=False),
        "kept, flat, in the mailbox": Side(batch, is_kept=True, is_flat=True, is_box=True),
    }
    boxes = []
    for side in sides.values():
        side.compute()
        boxes.append(side.box.clone())
        side.step()  # what was computed is zeroed
    assert all(torch.equal(box, boxes[0]) for box in boxes)
    return compare({name: side.step for name, side in sides.items()}, time.process_time)


# ------------------------------------------------------------ a round


class Round:
    """All blocks of the network under Adam, and two contributions to each round."""

    def __init__(self, apply: Callable[[OptimizeBlock, Sequence[Tensor]], None]) -> None:
        """Make blocks that have stepped once, so that there is state."""
        draw = torch.Generator().manual_seed(0)
        self._apply = apply
        sizes = [parameter.numel() for parameter in make_model().parameters()]
        self.blocks = [
            OptimizeBlock(torch.randn(n, generator=draw), "Adam", HYPER) for n in sizes
        ]
        self._gradients = [[torch.randn(n, generator=draw) for _ in WEIGHTS] for n in sizes]
        for block, gradients in zip(self.blocks, self._gradients, strict=True):
            block.apply(gradients[0], HYPER)
        self.num_bytes = 4 * sum(sizes)

    def alone(self) -> None:
        """Apply a round in this thread."""
        for block, gradients in zip(self.blocks, self._gradients, strict=True):
            self._apply(block, gradients)

    def together(self, runners: SlotRunners) -> None:
        """Apply a round as a server does; returns when all blocks are done."""
        done = threading.Semaphore(0)
        queues = []
        for block, gradients in zip(self.blocks, self._gradients, strict=True):
            slot = SlotQueue(_raise)

            def turn(block: OptimizeBlock = block, found: list[Tensor] = gradients) -> None:
                self._apply(block, found)

            slot.place(turn, done.release, 0)
            queues.append(slot)

        def run() -> None:
            for slot in queues:
                slot.run()

        runners.run(run, self.num_bytes)
        for _ in queues:
            done.acquire()


def _raise(error: Exception) -> None:
    raise error


def apply_whole(block: OptimizeBlock, gradients: Sequence[Tensor]) -> None:
    """As servers do."""
    block.apply(weighted_sum(gradients, WEIGHTS), HYPER)


def apply_in_pieces(block: OptimizeBlock, gradients: Sequence[Tensor]) -> None:
    """Sum and step piece by piece; the count of steps grows with the first."""
    state = block.state()
    group = {
        **dict.fromkeys(("amsgrad", "maximize", "decoupled_weight_decay"), False),
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "weight_decay": 0.0,
        **HYPER,
    }
    count = state["step"].item()
    total = torch.empty(PIECE)
    for start in range(0, len(block.values), PIECE):
        here = slice(start, min(start + PIECE, len(block.values)))
        piece = total[: here.stop - here.start]
        torch.mul(gradients[0][here], WEIGHTS[0], out=piece)
        piece.add_(gradients[1][here], alpha=WEIGHTS[1])
        state["step"].fill_(count)
        moments = {name: state[name][here] for name in ("exp_avg", "exp_avg_sq")}
        fused.step(block.values[here], piece, group, {"step": state["step"], **moments})


def compare_rounds() -> list[Taken]:
    """Time from a round's commit until all its numbers are there."""
    whole, shared, pieces = Round(apply_whole), Round(apply_whole), Round(apply_in_pieces)
    runners = SlotRunners("server-0", num_threads=1)
    runners.start()
    try:
        candidates = {
            "one thread": whole.alone,
            "two threads": lambda: shared.together(runners),
            f"one thread, pieces of {PIECE}": pieces.alone,
        }
        found = compare(candidates, time.perf_counter)
    finally:
        runners.close(10.0)
    for a, b, c in zip(whole.blocks, shared.blocks, pieces.blocks, strict=True):
        assert torch.equal(a.values, b.values)
        assert torch.equal(a.values, c.values)
    return found


def main() -> int:
    """Measure and print; see the module."""
    torch.set_num_threads(1)
    for batch in (8, 64):
        print(f"gradients, batch {batch}: processor time of a trainer's step")
        print(*compare_gradients(batch), sep="\n")
    print("a round of two contributions: time until all is applied")
    print(*compare_rounds(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

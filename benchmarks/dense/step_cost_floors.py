"""What of a step nobody can spare, each thing alone, to read `benchmarks step_cost` by.

::

    an empty round trip   between two processes, over a Unix socket by paceline's own
                          transport; nothing is decided
    a record appended     to the journal; no fsync is waited for
    computing             forward and backward of the plain loop's model
    kernels               what changes the numbers: torch's optimizer on one tensor of all
                          those of the network; paceline's loops for rows (distinct ids, a
                          look at their rows, sums of gradients, a step), each time of
                          another batch, in a table of all rows
    by hand               all of a step, batch after batch in one loop: data, model, torch's
                          optimizer for the network and the loops for rows; nobody is asked

All are medians of one process with one thread, in microseconds.

Waits: for the other process, with a bound.
"""

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import nn

from benchmarks.dense.step_cost_models import Batch, Model, made, plain_of
from benchmarks.transport.timing import timed
from benchmarks.transport.with_paceline import TIMEOUT_S, Touch, wait_link
from paceline.config import Zeros
from paceline.messages.shared import TableSpec
from paceline.params.rows import (
    Float32s,
    Int64s,
    RowTable,
    sum_duplicates,
    unique_ids,
)
from paceline.store.journal import Journal
from paceline.trainer.rows.embedding import look_up
from paceline.trainer.rows.embedding_rows import Found

SERVER = "benchmarks.transport.with_paceline"
RECORD_BYTES = 64  # about those of a round that is committed
CALLS = 1000
WARM = 0.2  # of the calls
BATCHES = 64  # that take turns: the rows of one would stay in the processor's cache


@contextlib.contextmanager
def round_trip(folder: Path) -> Iterator[Callable[[], object]]:
    """An empty call of another process, which is there until the end."""
    words = ("server", "--place", str(folder), "--plan", "{}", "--out", os.devnull)
    with subprocess.Popen([sys.executable, "-m", SERVER, *words]) as server:
        try:
            with wait_link(f"unix:{folder / 's.sock'}") as connection:
                yield lambda: connection.call(Touch(), timeout_s=TIMEOUT_S)
        finally:
            server.kill()


def append(journal: Journal) -> Callable[[], object]:
    """Write one record."""
    return lambda: journal.append([bytes(RECORD_BYTES)])


def computing(model: Model, batch: Batch) -> Callable[[], object]:
    """Forward and backward."""

    def compute() -> None:
        model.zero_grad()
        model.loss(batch).backward()

    return compute


def kernels(model: Model) -> Callable[[], object]:
    """Change the network's numbers and the rows of the next batch."""
    steps = list[Callable[[], object]]()
    if model.linear is not None:
        numbers = [one.detach().flatten() for one in model.linear.parameters()]
        flat = nn.Parameter(torch.cat(numbers))
        flat.grad = torch.randn_like(flat)
        steps.append(model.optimizer([flat]).step)
    if model.rows is not None:
        drawn = [model.draw(model.batch)[1].flatten().numpy() for _ in range(BATCHES)]
        table = table_of(model, np.concatenate(drawn))
        gradients = np.ones((len(drawn[0]), model.width), np.float32)
        batches = itertools.cycle(drawn)

        def step_rows() -> None:
            ids = next(batches)
            unique, inverse = unique_ids(ids)
            table.gather(unique, create=True)
            table.apply(unique, sum_duplicates(inverse, gradients, len(unique)))

        steps.append(step_rows)
    return lambda: [step() for step in steps]


def table_of(model: Model, ids: Int64s) -> RowTable:
    """All of its rows; first those of ids, in the order in which a loop makes them."""
    rule, _ = model.row_rules()
    table = RowTable(TableSpec("rows", model.width, rule, Zeros()), seed=0)
    table.gather(np.concatenate([ids, np.arange(model.ids)]), create=True)
    return table


@final
class RowsByHand(nn.Module):
    """The rows of a model, by paceline's loops for rows alone."""

    def __init__(self, model: Model, ids: torch.Tensor) -> None:
        super().__init__()
        self._table = table_of(model, ids.flatten().numpy())
        self._waiting: list[tuple[Int64s, Float32s]] = []

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Those of ids, in the graph."""
        unique, inverse = unique_ids(ids.flatten().numpy())
        rows = torch.from_numpy(self._table.gather(unique, create=True))
        places = torch.from_numpy(inverse).view(ids.shape)
        keep = self._waiting.append
        return look_up(Found(rows, places, lambda one: keep((unique, one.numpy()))))

    def step(self) -> None:
        """Change them."""
        for unique, gradient in self._waiting:
            self._table.apply(unique, gradient)
        self._waiting.clear()


@final
class ByHand:
    """The whole loop, of batches that take turns."""

    def __init__(self, kind: str) -> None:
        plain = plain_of(kind)
        self.records = plain.draw(BATCHES * plain.batch)
        self._rows = None if plain.rows is None else RowsByHand(plain, self.records[1])
        self.model = made(kind, self._rows or nn.Identity())
        linear = self.model.linear
        self._network = None
        if linear is not None:
            self._network = self.model.optimizer(linear.parameters())
        places = torch.arange(len(self.records[0])).split(plain.batch)
        self._batches = itertools.cycle(places)

    def step(self) -> None:
        """One more batch."""
        some = next(self._batches)
        features, ids, targets = (one.index_select(0, some) for one in self.records)
        self.model.loss((features, ids, targets)).backward()
        for one in (self._network, self._rows):
            if one is not None:
                one.step()
        self.model.zero_grad()


def measure(kind: str, steps: int, folder: Path) -> dict[str, float]:
    """All of them: {which: microseconds}."""
    model = plain_of(kind)
    batch = model.draw(model.batch)
    journal = Journal(folder / "journal.sqlite")
    with contextlib.closing(journal), round_trip(folder) as trip:
        seconds = {
            "an empty round trip": timed(trip, CALLS, WARM),
            "a record appended": timed(append(journal), CALLS, WARM),
            "computing": timed(computing(model, batch), steps, WARM),
            "kernels": timed(kernels(model), steps, WARM),
            "by hand": timed(ByHand(kind).step, steps, WARM),
        }
    return {name: 1e6 * one.wall_s for name, one in seconds.items()}


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, required=True)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    with torch.sparse.check_sparse_tensor_invariants(enable=False):  # torch's default, said
        found = measure(flags.model, flags.steps, flags.out.parent)
    flags.out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()

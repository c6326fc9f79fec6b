"""Trainers under a bound on clocks, in threads: real reads, from real servers."""

import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import paceline
from paceline.config import SSP

TRAINERS = 8
READS = int(os.environ.get("PACELINE_REAL_READS", "1600"))
BATCH = 2


class Read(NamedTuple):
    """What a trainer saw as it began a step: its clock, and the steps of all."""

    trainer: int
    clock: int
    steps: list[int]
    offset: int  # its clock less its own steps


def march(session: paceline.Session, me: int, history: list[Read], seed: int) -> None:
    """Count one's own steps in a shared vector; note what is seen before each."""
    model = nn.Module()
    model.steps = nn.Parameter(torch.zeros(TRAINERS, dtype=torch.float64))
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    marching = session._membership._protocol.marching  # type: ignore[union-attr]
    draw = random.Random(seed + me)
    batches = session.batches(torch.arange(READS * BATCH), BATCH, task_size=16 * BATCH)
    for mine, _ in enumerate(batches):
        seen = [round(float(value)) for value in model.steps.detach()]
        assert seen[me] == mine, f"{me} has taken {mine} steps and sees {seen[me]}"
        assert marching.clock is not None
        history.append(Read(me, marching.clock, seen, marching.clock - mine))
        if draw.random() < 0.05:
            time.sleep(0.004 * draw.random())
        model.steps.grad = torch.zeros(TRAINERS, dtype=torch.float64)
        model.steps.grad[me] = -1.0
        optimizer.step()


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("staleness", [0, 3])
def test_what_is_read_has_all_steps_that_the_bound_asks_for(
    staleness: int, run: Callable[..., list[Any]]
) -> None:
    histories: list[list[Read]] = [[] for _ in range(TRAINERS)]
    names = iter(range(TRAINERS))
    lock = threading.Lock()

    def script(session: paceline.Session) -> None:
        with lock:
            me = next(names)
        march(session, me, histories[me], staleness)

    run(script, trainers=TRAINERS, pace=SSP(staleness=staleness))
    reads = [read for history in histories for read in history]
    assert len(reads) == READS
    checked = 0
    for read in reads:
        for other, history in enumerate(histories):
            # Where another stood in line is known only while it was at work throughout.
            last = read.steps[other]
            if other == read.trainer or last + 1 >= len(history):
                continue
            at = history[last]
            if at.offset != history[last + 1].offset or at.offset != history[0].offset:
                continue
            checked += 1
            assert at.clock >= read.clock - staleness, f"{read} has too little of {at}"
    assert checked > READS

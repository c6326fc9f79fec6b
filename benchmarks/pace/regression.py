"""A training script whose batches sleep; one trainer writes down how the loss falls.

What is learnt is a linear map in 50 dimensions, from noisy labels: small enough to need no
core of its own.
"""

import json
import os
import sys
import time
from pathlib import Path
from random import Random

import torch

import paceline
from paceline.launch.environment import ROLE
from paceline.simulate.forecast.models import draw_compute
from paceline.simulate.forecast.written import parse_compute

DIM, BATCH, BATCHES = 50, 8, 1600
HELD_OUT = 512
NOISE = 0.1

if __name__ == "__main__":
    sleep, seed, rate, place = sys.argv[1:5]
    index = int(os.environ[ROLE].rpartition("-")[2])
    draw = draw_compute(
        parse_compute("compute", sleep), index, Random(f"{seed} compute {index}")
    )
    torch.manual_seed(int(seed))
    records = BATCH * BATCHES + HELD_OUT
    inputs = torch.randn(records, DIM)
    labels = inputs @ torch.randn(DIM, 1) / DIM**0.5 + NOISE * torch.randn(records, 1)
    held_out = inputs[-HELD_OUT:], labels[-HELD_OUT:]
    session = paceline.connect()
    model = torch.nn.Linear(DIM, 1)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=float(rate)))
    trace: list[tuple[float, float]] = []
    is_judge = session.once("judge")
    began_s = time.monotonic()
    data = inputs[:-HELD_OUT], labels[:-HELD_OUT]
    # Small tasks: who is slow holds little of an epoch's end.
    for x, y in session.batches(data, BATCH, seed=int(seed), task_size=8 * BATCH):
        if is_judge:
            with torch.no_grad():
                loss = torch.nn.functional.mse_loss(model(held_out[0]), held_out[1])
            trace.append((time.monotonic() - began_s, loss.item()))
        time.sleep(draw())
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    if is_judge:
        Path(place).write_text(json.dumps(trace))

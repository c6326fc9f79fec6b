"""A training script: reads digits in batches that sleep, until the loss is low enough.

Network, images, first values and target are those of `benchmarks dial`; one trainer,
which is never the slow one, looks at the held-out loss before each of its batches.
"""

import json
import os
import sys
import time
from collections import deque
from pathlib import Path
from random import Random

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import paceline
from benchmarks.pace.dial import problem, tuning
from paceline.forecast.models import draw_compute, parse_compute
from paceline.launch.job.environment import ROLE

TASK = 8  # batches: who is slow holds little of an epoch's end
LOOKS = 20  # of one trainer of four: about as many batches as `tuning.SMOOTHED`


def network(seed: int) -> nn.Sequential:
    """The problem's network, with the values that it begins with."""
    model = nn.Sequential(
        nn.Linear(problem.PIXELS, problem.HIDDEN),
        nn.ReLU(),
        nn.Linear(problem.HIDDEN, problem.CLASSES),
    )
    values = problem.layers_of(problem.initial(seed))
    with torch.no_grad():
        for mine, found in zip(model.parameters(), values, strict=True):
            mine.copy_(torch.from_numpy(found[0]).t())
    return model


def main() -> None:
    """Train until the loss is reached, or the data is over."""
    sleep, seed, rate, momentum, epochs, judge, place = sys.argv[1:8]
    index = int(os.environ[ROLE].rpartition("-")[2])
    draw = draw_compute(
        parse_compute("compute", sleep), index, Random(f"{seed} compute {index}")
    )
    inputs, labels = (
        torch.from_numpy(found)
        for found in problem.images(problem.RECORDS, problem.IMAGES_SEED)
    )
    held_out = [
        torch.from_numpy(found)
        for found in problem.images(problem.HELD_OUT, problem.HELD_OUT_SEED)
    ]
    session = paceline.connect()
    model = network(int(seed))
    optimizer = torch.optim.SGD(
        model.parameters(), lr=float(rate), momentum=float(momentum)
    )
    shared = session.share(model, optimizer)
    trace: list[tuple[float, float]] = []
    recent: deque[float] = deque(maxlen=LOOKS)
    began_s = time.monotonic()
    batches = session.batches(
        (inputs, labels),
        tuning.BATCH,
        epochs=int(epochs),
        seed=int(seed),
        task_size=TASK * tuning.BATCH,
    )
    for x, y in batches:
        if index == int(judge):
            with torch.no_grad():
                recent.append(cross_entropy(model(held_out[0]), held_out[1]).item())
            trace.append((time.monotonic() - began_s, sum(recent) / len(recent)))
            if len(recent) == LOOKS and trace[-1][1] <= tuning.TARGET:
                session.stop("the loss is reached")
        time.sleep(draw())
        shared.zero_grad()
        cross_entropy(model(x), y).backward()
        shared.step()
    if index == int(judge):
        Path(place).write_text(json.dumps(trace))


if __name__ == "__main__":
    main()

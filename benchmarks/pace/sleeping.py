"""A training script whose batches sleep: a trainer needs no core of its own.

How long they do is a model of `paceline simulate`, drawn as a forecast draws it.
"""

import os
import sys
import time
from random import Random

import torch

import paceline
from paceline.forecast.models import draw_compute, parse_compute
from paceline.launch.job.environment import ROLE

if __name__ == "__main__":
    model_name, seed, records, batch_size = sys.argv[1:5]
    index = int(os.environ[ROLE].rpartition("-")[2])
    draw = draw_compute(
        parse_compute("compute", model_name), index, Random(f"{seed} compute {index}")
    )
    torch.manual_seed(0)
    inputs = torch.randn(int(records), 4)
    targets = inputs.sum(1, keepdim=True)
    session = paceline.connect()
    model = torch.nn.Linear(4, 1)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for x, y in session.batches((inputs, targets), batch_size=int(batch_size)):
        time.sleep(draw())
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

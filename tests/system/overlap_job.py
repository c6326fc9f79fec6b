"""A counting job whose one parameter is large enough to leave while backward runs.

Every record adds 1 to all of it, by plain SGD with a learning rate of 1: in the end it is
the number of records times the epochs, everywhere.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from torch import nn

import paceline

RECORDS, EPOCHS = 1600, 2

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
out = parser.parse_args().out
session = paceline.connect()
model = nn.Linear(256, 256, bias=False)
nn.init.zeros_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
optimizer = session.share(model, optimizer, overlap=True)
ones = torch.ones(RECORDS, 1)
for batch in session.batches(ones, 16, epochs=EPOCHS, task_size=160):
    time.sleep(0.05)  # long enough for faults
    (-batch.sum() * (model.weight * torch.ones_like(model.weight)).sum()).backward()
    optimizer.step()
    optimizer.zero_grad()
if session.once("check"):
    found = sorted(set(model.weight.detach().flatten().tolist()))
    is_exact = found == [RECORDS * EPOCHS]
    out.write_text(json.dumps({"exact": is_exact, "found": found[:10]}))

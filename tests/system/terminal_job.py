"""Trains for a while; tells who it is, and whether it is to go on."""

import signal
import sys
import time
from pathlib import Path

import torch

import paceline

folder = Path(sys.argv[1])
session = paceline.connect()
model = torch.nn.Linear(2, 1)
optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
ignored = [
    one.name
    for one in signal.valid_signals()
    if isinstance(one, signal.Signals) and signal.getsignal(one) is signal.SIG_IGN
]
(folder / "ignored").write_text(" ".join(sorted(ignored)))
for x in session.batches(torch.ones(8, 2), batch_size=4):
    while not (folder / "go").exists():
        time.sleep(0.02)
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

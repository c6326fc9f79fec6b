"""A script that damages the only cut of its own job and kills the server."""

import os
import signal
from pathlib import Path

import psutil
import torch
from torch import nn

import paceline

CUTS = Path(os.environ["PACELINE_JOB_DIR"]) / "checkpoints"

session = paceline.connect()
model = nn.Linear(1, 1)
optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
for number, batch in enumerate(session.batches(torch.ones(64, 1), 2)):
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if number == 2:
        [share] = CUTS.glob("cut-*/server-0.safetensors")
        data = bytearray(share.read_bytes())
        data[len(data) // 2] ^= 1
        share.write_bytes(data)
        for process in psutil.Process(os.getppid()).children():
            if process.name() == "server-0":
                process.send_signal(signal.SIGKILL)

"""Stands still in its second batch, in a function of a name that a test looks for."""

import signal
import time

import torch

import paceline


def stands_still() -> None:
    time.sleep(3600)


signal.signal(signal.SIGUSR1, signal.SIG_DFL)  # a stray signal would end it
signal.signal(signal.SIGUSR2, signal.SIG_DFL)
session = paceline.connect()
model = torch.nn.Linear(2, 1)
optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
for (batch,) in session.batches((torch.randn(640, 2),), batch_size=32):
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if session.once("stand"):
        stands_still()

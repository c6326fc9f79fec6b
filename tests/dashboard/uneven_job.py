"""Trains for as long as it is looked at; trainer-3 takes four times as long as others."""

import os
import time

import torch

import paceline

NUM_RECORDS = int(os.environ.get("UNEVEN_RECORDS", "2_000_000"))
STEP_S = float(os.environ.get("UNEVEN_STEP_S", "0.02"))

session = paceline.connect()
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.01))
inputs = torch.randn(NUM_RECORDS, 8)
targets = inputs.sum(1, keepdim=True)
records = torch.utils.data.TensorDataset(inputs, targets)
is_slow = os.environ.get("PACELINE_ROLE") == "trainer-3"
for some, wanted in session.batches(records, 32):
    time.sleep(4 * STEP_S if is_slow else STEP_S)
    loss = torch.nn.functional.mse_loss(model(some), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    session.log(loss=loss)

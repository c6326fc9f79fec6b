"""A script whose run is recorded: slow until it is told to hurry.

With an argument it has a table, whose rule is in a module beside it.
"""

import sys
import time
from pathlib import Path

import torch

import paceline

RECORDS, BATCH, EPOCHS = 6400, 16, 2  # 12,800 in all

session = paceline.connect()
model = torch.nn.Linear(1, 1)
optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
seen = None
if sys.argv[1:]:
    import careful  # noqa: F401  (it registers the rule)

    seen = session.table("seen", (1,), "float32", combine="careful")
x = torch.linspace(-1, 1, RECORDS)[:, None]
for inputs, targets in session.batches((x, 3 * x), BATCH, epochs=EPOCHS):
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    session.log(loss=loss.item())
    if seen is not None:
        seen.push(torch.zeros(1, dtype=torch.int64), torch.ones(1))
    if not Path("hurry").exists():
        time.sleep(0.1)

"""The job whose folders are kept here: dense values, rows, a table, BatchNorm."""

import sys
import time

import torch

import paceline


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = paceline.Embedding("user", 4, optimizer=paceline.Adagrad(lr=0.1))
        self.hidden = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.out = torch.nn.Linear(3, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(self.hidden(self.rows(ids)))).squeeze(1)


session = paceline.connect()
torch.manual_seed(0)
model = Net()
ids = torch.arange(64) % 16
labels = torch.linspace(-1, 1, 64)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
optimizer = session.share(model, optimizer)
counts = session.table("counts", (4,), dtype="int64")
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, gamma=0.5)
session.track(scheduler=scheduler)
for number, (user, label) in enumerate(session.batches((ids, labels), 8, epochs=2)):
    loss = torch.nn.functional.mse_loss(model(user), label)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    counts.push(torch.arange(4).numpy(), torch.ones(4, dtype=torch.int64).numpy())
    scheduler.step()
    if number == 10 and "stop" in sys.argv:
        session.save()
        time.sleep(60)
    if "killed" in sys.argv:
        if number == 4:
            session.save()
        if number == 10:
            sys.stdout.write("kill me\n")
            sys.stdout.flush()
            time.sleep(600)

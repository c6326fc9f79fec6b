"""An ordinary small model: rows, dense parameters, Adam."""

import torch
from torch import nn

import paceline

torch.manual_seed(0)
ids = torch.randint(0, 500, (960, 4))
labels = (ids.sum(dim=1) % 2).float()
session = paceline.connect()
rows = paceline.Embedding("rows", 8, optimizer=paceline.Adagrad(lr=0.05))
head = nn.Linear(32, 1)
model = nn.ModuleList([rows, head])
optimizer = session.share(model, torch.optim.Adam(head.parameters(), lr=0.01))
for batch, wanted in session.batches((ids, labels), batch_size=32, epochs=2, seed=3):
    logits = head(rows(batch).flatten(1)).squeeze(1)
    nn.functional.binary_cross_entropy_with_logits(logits, wanted).backward()
    optimizer.step()
    optimizer.zero_grad()

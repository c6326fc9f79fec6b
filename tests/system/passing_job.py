"""Two loops; the trainer dies in the second one, and passes the first when it is back."""

import json
import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn

import paceline

out, marker = Path(sys.argv[1]), Path(sys.argv[1] + ".died")
torch.manual_seed(0)
features = torch.randn(2_000, 4) * 3 + 5
targets = features.sum(1, keepdim=True)
session = paceline.connect()
model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))
optimizer = session.share(model, torch.optim.Adam(model.parameters(), lr=0.01))
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
session.track(scheduler=scheduler)
means = []
for epoch in range(2):
    for number, (some, wanted) in enumerate(session.batches((features, targets), 50)):
        loss = nn.functional.mse_loss(model(some), wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if epoch == 1 and number == 10 and not marker.exists():
            session.save()
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    norm = model[0]
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_mean is not None
    means.append(norm.running_mean.tolist())
    scheduler.step()
out.write_text(json.dumps({"means": means, "steps": scheduler.last_epoch}))

"""Four batches to a step, gradients clipped, the learning rate in one cycle.

Fits a function of eight numbers.
"""

import torch
from torch import nn

import paceline

RECORDS, BATCH, EVERY, EPOCHS = 2048, 16, 4, 2
STEPS = RECORDS // BATCH // EVERY * EPOCHS


def main() -> None:
    """Train for two epochs."""
    torch.manual_seed(0)
    features = torch.randn(RECORDS, 8)
    targets = features[:, :4].sin().sum(dim=1, keepdim=True) * features[:, 4:5]
    model = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    # Right for one trainer; of several each counts its own steps: see session.schedule.
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=STEPS)
    session = paceline.connect()
    optimizer = session.share(model, optimizer)
    batches = session.batches((features, targets), batch_size=BATCH, epochs=EPOCHS)
    for number, (batch, wanted) in enumerate(batches, 1):
        loss = nn.functional.mse_loss(model(batch), wanted)
        (loss / EVERY).backward()
        session.log(loss=loss.item())
        if number % EVERY == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            cycle.step()


if __name__ == "__main__":
    main()

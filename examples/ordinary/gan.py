"""A GAN: two models with an optimizer each, shared as two parts, pushed twice a batch.

Learns where points lie: around (2, -1), and most of all along one line.
"""

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import paceline

RECORDS, BATCH, NOISE = 4096, 64, 4


def main() -> None:
    """Train for one epoch."""
    torch.manual_seed(0)
    middle = torch.tensor([2.0, -1.0])
    points = middle + torch.randn(RECORDS, 2) @ torch.tensor([[0.5, 0.5], [0.0, 0.1]])
    maker = nn.Sequential(nn.Linear(NOISE, 32), nn.ReLU(), nn.Linear(32, 2))
    judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    makes = torch.optim.Adam(maker.parameters(), lr=3e-2, betas=(0.5, 0.9))
    judges = torch.optim.Adam(judge.parameters(), lr=3e-2, betas=(0.5, 0.9))
    session = paceline.connect()
    makes, judges = session.share(maker, makes), session.share(judge, judges)
    for real in session.batches(points, batch_size=BATCH):
        made = maker(torch.randn(len(real), NOISE))
        yes, no = torch.ones(len(real), 1), torch.zeros(len(real), 1)

        judges.zero_grad()
        doubt = binary_cross_entropy_with_logits(judge(real), yes)
        doubt = doubt + binary_cross_entropy_with_logits(judge(made.detach()), no)
        doubt.backward()
        judges.step()

        makes.zero_grad()
        loss = binary_cross_entropy_with_logits(judge(made), yes)
        loss.backward()
        makes.step()
        off = (made.detach().mean(dim=0) - middle).norm()
        session.log(judge=doubt.item(), maker=loss.item(), off=off.item())


if __name__ == "__main__":
    main()

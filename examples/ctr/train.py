"""Delay prediction with the CTR model family: DeepFM over 14 id fields.

The embeddings live on the parameter servers; so do the network and its Adam.
"""

import argparse

import flights
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import paceline

NUM_FIELDS = len(flights.FIELDS)
DIM = 16
TEST_BATCH = 8192


class DeepFM(nn.Module):
    """Linear, pairwise and deep terms over shared embeddings (Guo et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        rule = paceline.Adagrad(lr=0.05)
        self.wide = paceline.Embedding("wide", 1, optimizer=rule, init=paceline.Zeros())
        self.deep = paceline.Embedding("deep", DIM, optimizer=rule)
        self.network = nn.Sequential(
            nn.Linear(NUM_FIELDS * DIM, 128),
            nn.ReLU(),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, fields: Tensor) -> Tensor:
        """Logits ``(batch,)`` of ids ``(batch, 14)``."""
        rows = self.deep(fields)  # (batch, 14, 16)
        linear = self.wide(fields).sum(dim=(1, 2))
        pairs = (rows.sum(dim=1).square() - rows.square().sum(dim=1)).sum(dim=1) / 2
        return linear + pairs + self.network(rows.flatten(1)).squeeze(1)


def main() -> None:
    """Train, then score the test flights in one trainer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()

    torch.manual_seed(flags.seed)
    train, test = flights.load()
    session = paceline.connect()
    model = DeepFM()
    optimizer = session.share(model, torch.optim.Adam(model.parameters(), lr=1e-3))

    data = (torch.from_numpy(train.fields), torch.from_numpy(train.labels))
    for fields, labels in session.batches(
        data, batch_size=flags.batch_size, epochs=flags.epochs, seed=flags.seed
    ):
        loss = binary_cross_entropy_with_logits(model(fields), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        session.log(loss=loss.item())

    if session.once("evaluate"):
        model.eval()
        with torch.no_grad():
            batches = torch.from_numpy(test.fields).split(TEST_BATCH)
            logits = torch.cat([model(fields) for fields in batches])
        log_loss = binary_cross_entropy_with_logits(logits, torch.from_numpy(test.labels))
        session.log(auc=flights.auc(test.labels, logits.numpy()), log_loss=log_loss.item())


if __name__ == "__main__":
    main()

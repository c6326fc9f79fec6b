"""Reads digits in small noisy images with a convolutional network.

The images are made by `digits`; every trainer makes the same ones.
"""

import argparse

import digits
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torchmetrics.classification import MulticlassAccuracy

import paceline


class Reader(nn.Module):
    """Two convolutions, then one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 3 * 3, 10),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(batch, 10)`` of images ``(batch, 1, 12, 12)``."""
        return self.layers(images)


def main() -> None:
    """Train, then say how many digits of new images are read right: all work it out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=0, help="processes that read ahead")
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()

    torch.manual_seed(flags.seed)
    data = digits.draw(flags.records, seed=flags.seed)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = paceline.connect()
    optimizer = session.share(model, optimizer)
    for images, labels in session.batches(
        data,
        batch_size=flags.batch_size,
        epochs=flags.epochs,
        seed=flags.seed,
        workers=flags.workers,
    ):
        loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        session.log(loss=loss.item())

    accuracy = session.evaluate(
        MulticlassAccuracy(10, average="micro"),
        lambda batch: (model(batch[0]), batch[1]),
        digits.draw(1000, seed=flags.seed + 1),
    )
    session.log(accuracy=accuracy.item())


if __name__ == "__main__":
    main()

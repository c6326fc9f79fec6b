"""A small ResNet with BatchNorm in mixed precision: bfloat16 by autocast, on the CPU.

The images are made here: noise with a bright bar, across, down or along a diagonal.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

import paceline

RECORDS, SIZE, CLASSES = 384, 12, 4


class Block(nn.Module):
    """Two convolutions beside a shortcut (He et al. 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(width), nn.BatchNorm2d(width)])

    def forward(self, images: Tensor) -> Tensor:
        """Images ``(batch, width, size, size)``, as they came."""
        hidden = functional.relu(self.norms[0](self.first(images)))
        return functional.relu(images + self.norms[1](self.second(hidden)))


def make_images() -> tuple[Tensor, Tensor]:
    """Images ``(records, 1, size, size)`` and the class of each."""
    labels = torch.randint(CLASSES, (RECORDS,))
    images = torch.randn(RECORDS, 1, SIZE, SIZE)
    across, down = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    middle = SIZE // 2
    bars = [across == middle, down == middle, across == down, across + down == SIZE - 1]
    images[:, 0] += 2.0 * torch.stack(bars)[labels]
    return images, labels


def main() -> None:
    """Train for two epochs."""
    torch.manual_seed(0)
    images, labels = make_images()
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        Block(8),
        nn.AdaptiveAvgPool2d(3),
        nn.Flatten(),
        nn.Linear(72, CLASSES),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    session = paceline.connect()
    optimizer = session.share(model, optimizer)
    for batch, wanted in session.batches((images, labels), batch_size=32, epochs=2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = functional.cross_entropy(model(batch), wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        session.log(loss=loss.item())


if __name__ == "__main__":
    main()

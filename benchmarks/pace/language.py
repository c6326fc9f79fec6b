"""A training script: the next byte of the standard library's sources from those before it.

The sources come with Python, so that nothing is fetched; all trainers read the same ones.
The model is the oldest that learns to: embeddings of the last bytes, side by side, and a
hidden layer (Bengio et al. 2003, by bytes). It is small, so that thousands of steps and
dozens of rounds take seconds.
"""

import math
import sys
import sysconfig
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import paceline

CONTEXT, WIDTH, HIDDEN, BYTES = 12, 8, 64, 128
HELD_OUT = 16_384  # examples
WARM_UP, LEAST = 0.05, 0.05  # of the steps; of the learning rate


def read_examples(count: int) -> tuple[Tensor, Tensor]:
    """Bytes and the one behind them, uint8 ``(n, CONTEXT + 1)``, to train on and held out.

    Places are drawn; what is held out is of the last tenth of the text, which is not
    trained on.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).clamp(max=BYTES - 1)
    draw = torch.Generator().manual_seed(0)
    last = len(data) - CONTEXT - 1
    border = last * 9 // 10
    places = torch.randint(0, border - CONTEXT, (count,), generator=draw)
    held_out = torch.randint(border, last, (HELD_OUT,), generator=draw)
    behind = torch.arange(CONTEXT + 1)
    return data[places[:, None] + behind], data[held_out[:, None] + behind]


class Reader(nn.Module):
    """Predicts a byte from those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(BYTES, WIDTH)
        self.hidden = nn.Linear(CONTEXT * WIDTH, HIDDEN)
        self.head = nn.Linear(HIDDEN, BYTES)

    def forward(self, examples: Tensor) -> Tensor:
        """The mean loss of examples uint8 ``(n, CONTEXT + 1)``, in nats a byte."""
        known, target = examples[:, :-1].long(), examples[:, -1].long()
        found = torch.relu(self.hidden(self.bytes(known).flatten(1)))
        return cross_entropy(self.head(found), target)


def rate_of(step: int, steps: int) -> float:
    """The share of the learning rate at a step: a line up, then a cosine down."""
    warm = max(1, int(WARM_UP * steps))
    if step < warm:
        return (step + 1) / warm
    done = min(1.0, (step - warm) / (steps - warm))
    return LEAST + (1 - LEAST) * 0.5 * (1 + math.cos(math.pi * done))


def main() -> None:
    """Train, and log the held-out loss."""
    batches, batch_size, rate, seed, task_batches, trainers = sys.argv[1:7]
    size, steps = int(batch_size), int(batches) // int(trainers)
    examples, held_out = read_examples(int(batches) * size)
    torch.manual_seed(int(seed))
    session = paceline.connect()
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=float(rate))
    shared = session.share(model, optimizer)
    schedule = torch.optim.lr_scheduler.LambdaLR(shared, lambda step: rate_of(step, steps))
    task = int(task_batches) * size
    for batch in session.batches(examples, size, seed=int(seed), task_size=task):
        shared.zero_grad()
        loss = model(batch)
        loss.backward()
        shared.step()
        schedule.step()
    if session.once("held out"):
        with torch.no_grad():
            session.log(held_out=model(held_out).item())


if __name__ == "__main__":
    main()

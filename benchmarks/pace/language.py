"""A training script: a small transformer reads the standard library's sources, by bytes.

The sources come with Python, so that nothing is fetched; all trainers read the same ones.
"""

import sys
import sysconfig
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import paceline

CONTEXT, WIDTH, HEADS, LAYERS, BYTES = 64, 64, 4, 2, 128
HELD_OUT = 512  # windows


def read_windows(count: int) -> tuple[Tensor, Tensor]:
    """Windows to train on and held out, int64 ``(n, CONTEXT + 1)``, of all of the text."""
    folder = Path(sysconfig.get_path("stdlib"))
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).clamp(max=BYTES - 1).long()
    length = CONTEXT + 1
    windows = data[: len(data) // length * length].view(-1, length)
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(0))
    windows = windows[order]
    if count + HELD_OUT > len(windows):
        raise SystemExit(f"{count} windows are wanted, {len(windows) - HELD_OUT} are there")
    return windows[:count], windows[-HELD_OUT:]


class Reader(nn.Module):
    """Predicts each byte from those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(BYTES, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, BYTES)
        self.mask: Tensor
        mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, windows: Tensor) -> Tensor:
        """The mean loss of windows int64 ``(n, CONTEXT + 1)``, in nats a byte."""
        inputs, targets = windows[:, :-1], windows[:, 1:]
        found = self.layers(self.bytes(inputs) + self.places, self.mask, is_causal=True)
        logits = self.head(self.norm(found))
        return cross_entropy(logits.flatten(0, 1), targets.flatten())


def main() -> None:
    """Train, and log the held-out loss."""
    batches, batch_size, rate, seed, task_batches = sys.argv[1:6]
    size = int(batch_size)
    windows, held_out = read_windows(int(batches) * size)
    torch.manual_seed(int(seed))
    session = paceline.connect()
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=float(rate))
    shared = session.share(model, optimizer)
    task = int(task_batches) * size
    for batch in session.batches(windows, size, seed=int(seed), task_size=task):
        shared.zero_grad()
        loss = model(batch)
        loss.backward()
        shared.step()
    if session.once("held out"):
        with torch.no_grad():
            session.log(held_out=model(held_out).item())


if __name__ == "__main__":
    main()

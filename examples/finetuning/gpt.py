"""A small GPT over bytes, adapters of low rank for it, and two texts that every Python has.

The adapters are those of LoRA (Hu and others 2021): beside a frozen layer ``W x`` stands
``B A x`` with few rows in between; ``B`` begins at zero, so that at first nothing changes.
"""

import argparse
import inspect
from pydoc_data import topics

import torch
from torch import Tensor, nn
from torch.nn import functional

LENGTH, WIDTH, HEADS, LAYERS, BYTES = 48, 64, 4, 2, 128


class Block(nn.Module):
    """Attention to what came before, then a small network, each beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.look = nn.Linear(WIDTH, 3 * WIDTH)
        self.merge = nn.Linear(WIDTH, WIDTH)
        self.widen = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden states ``(batch, length, width)``, as they came."""
        heads = self.look(self.norms[0](hidden)).unflatten(-1, (3, HEADS, -1))
        asked, keys, values = heads.transpose(1, 3).unbind(2)
        seen = functional.scaled_dot_product_attention(asked, keys, values, is_causal=True)
        hidden = hidden + self.merge(seen.transpose(1, 2).flatten(2))
        return hidden + self.narrow(functional.gelu(self.widen(self.norms[1](hidden))))


class GPT(nn.Module):
    """Bytes in, logits of the next ones out."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(BYTES, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.logits = nn.Linear(WIDTH, BYTES)

    def forward(self, text: Tensor) -> Tensor:
        """Logits ``(batch, length, 128)`` of ``text``, int64 ``(batch, length)``."""
        return self.logits(self.blocks(self.bytes(text) + self.places))


class Adapted(nn.Module):
    """A frozen linear layer and what is learned beside it."""

    def __init__(self, frozen: nn.Linear, width: int) -> None:
        super().__init__()
        self.frozen = frozen
        self.down = nn.Linear(frozen.in_features, width, bias=False)
        self.up = nn.Linear(width, frozen.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, hidden: Tensor) -> Tensor:
        """What the frozen layer says, and a correction of low rank."""
        return self.frozen(hidden) + self.up(self.down(hidden))


def adapt(model: GPT, width: int) -> list[nn.Parameter]:
    """Freeze ``model``, put adapters into its blocks, and return what is left to train."""
    model.requires_grad_(requires_grad=False)
    for block in model.blocks:
        for name, layer in list(block.named_children()):
            if isinstance(layer, nn.Linear):
                setattr(block, name, Adapted(layer, width))
    return [p for p in model.parameters() if p.requires_grad]


def loss_of(model: GPT, pieces: Tensor) -> Tensor:
    """Nats for each byte of ``pieces``, int64 ``(batch, length + 1)``."""
    logits = model(pieces[:, :-1])
    return functional.cross_entropy(logits.transpose(1, 2), pieces[:, 1:])


def manual() -> Tensor:
    """Pieces of Python's language reference: English."""
    return pieces("\n".join(topics.topics.values()))


def source() -> Tensor:
    """Pieces of a module of Python's library: code."""
    return pieces(inspect.getsource(argparse))


def pieces(text: str) -> Tensor:
    """A text cut up, int64 ``(records, length + 1)``."""
    codes = torch.tensor(list(text.encode("ascii", "ignore")))
    return codes.unfold(0, LENGTH + 1, LENGTH)

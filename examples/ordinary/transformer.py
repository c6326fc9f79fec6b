"""A small transformer that predicts characters; its first and last weight are one.

The text is the source of a module of Python's own library.
"""

import inspect
import textwrap

import torch
from torch import Tensor, nn
from torch.nn import functional

import paceline

LENGTH, WIDTH, RECORDS = 24, 32, 384


class Predictor(nn.Module):
    """Characters in, logits of the next ones out."""

    def __init__(self, num_characters: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(num_characters, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(
                WIDTH, 4, 2 * WIDTH, dropout=0.1, batch_first=True, norm_first=True
            ),
            num_layers=2,
            enable_nested_tensor=False,
        )
        self.logits = nn.Linear(WIDTH, num_characters, bias=False)
        self.logits.weight = self.characters.weight
        nn.init.normal_(self.characters.weight, std=0.1)

    def forward(self, text: Tensor) -> Tensor:
        """Logits ``(batch, length, characters)`` of ``text``, int64 ``(batch, length)``."""
        ahead = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        hidden = self.characters(text) + self.places
        return self.logits(self.layers(hidden, mask=ahead, is_causal=True))


def make_text() -> tuple[Tensor, int]:
    """Pieces of text ``(records, length + 1)``, and how many characters there are."""
    source = inspect.getsource(textwrap)
    alphabet = {character: place for place, character in enumerate(sorted(set(source)))}
    codes = torch.tensor([alphabet[character] for character in source])
    starts = torch.randint(len(codes) - LENGTH, (RECORDS, 1))
    return codes[starts + torch.arange(LENGTH + 1)], len(alphabet)


def main() -> None:
    """Train for one epoch, with a warm-up of the learning rate."""
    torch.manual_seed(0)
    pieces, num_characters = make_text()
    model = Predictor(num_characters)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=6)
    session = paceline.connect()
    optimizer = session.share(model, optimizer)
    for batch in session.batches(pieces, batch_size=16):
        logits = model(batch[:, :-1])
        loss = functional.cross_entropy(logits.transpose(1, 2), batch[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        warm_up.step()
        session.log(loss=loss.item())


if __name__ == "__main__":
    main()

"""Fine-tunes a small language model by adapters: what is frozen never travels.

First a GPT learns English; that stands for the model that you would have loaded. Then it is
frozen, and adapters in it learn Python.
"""

import argparse

import torch
from gpt import GPT, adapt, loss_of, manual, source
from torch import Tensor
from torchmetrics import MeanMetric

import paceline


def train(
    session: paceline.Session,
    model: GPT,
    optimizer: torch.optim.Optimizer,
    text: Tensor,
    epochs: int,
) -> None:
    """Some epochs of one text."""
    for batch in session.batches(text, batch_size=32, epochs=epochs):
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        session.log(loss=loss.item())


def main() -> None:
    """Train all of the model, then adapters alone; say what new code costs in both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pieces", type=int, default=4096, help="of English")
    parser.add_argument("--epochs", type=int, default=4, help="of Python")
    parser.add_argument("--width", type=int, default=8, help="rank of an adapter")
    flags = parser.parse_args()

    torch.manual_seed(0)
    model = GPT()
    session = paceline.connect()
    whole = session.share(model, torch.optim.AdamW(model.parameters(), lr=3e-3))
    train(session, model, whole, manual()[: flags.pieces], epochs=1)
    session.unshare(model)

    adapters = adapt(model, flags.width)
    optimizer = session.share(model, torch.optim.AdamW(adapters, lr=3e-3))
    code = source()
    learned, held_out = code[:-256], code[-256:]

    def look() -> float:
        return float(
            session.evaluate(MeanMetric(), lambda batch: loss_of(model, batch), held_out)
        )

    before = look()
    train(session, model, optimizer, learned, flags.epochs)
    session.log(
        nats_before=before,
        nats_after=look(),
        trained=sum(p.numel() for p in adapters),
        frozen=sum(p.numel() for p in model.parameters() if not p.requires_grad),
    )


if __name__ == "__main__":
    main()

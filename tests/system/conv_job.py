"""Reads digits with a network of which half the backbone is frozen; see test_conv_story."""

import argparse
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import paceline

sys.path.append(str(Path(__file__).parents[2] / "examples" / "images"))

import digits

RECORDS, UNSEEN, BATCH = 2000, 300, 50


class Reader(nn.Module):
    """Two blocks of a backbone, the first one frozen, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.second = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16))
        self.head = nn.Linear(16 * 9, 10)
        self.first.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        found = nn.functional.max_pool2d(self.first(images).relu(), 2)
        found = nn.functional.max_pool2d(self.second(found).relu(), 2)
        logits: Tensor = self.head(found.flatten(1))
        return logits


def made() -> Reader:
    torch.manual_seed(0)
    return Reader()


def unseen() -> tuple[Tensor, Tensor]:
    images, labels = digits.draw(UNSEEN, seed=1)
    return images, labels


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--predictions")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    session = paceline.connect()
    model = made()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = session.share(model, torch.optim.AdamW(trained, lr=5e-3))
    session.schedule(optimizer, lambda records: 0.5 ** (records // RECORDS))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    session.track(average=average)
    data = digits.draw(RECORDS, seed=0)
    for images, labels in session.batches(data, BATCH, epochs=flags.epochs):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = cross_entropy(model(images).float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
        session.log(loss=loss.item(), averages=float(average.n_averaged))
    session.predict(
        lambda batch: {"logits": model(batch[0]), "averaged": average(batch[0])},
        unseen(),
        flags.predictions,
        batch_size=BATCH,
    )


if __name__ == "__main__":
    main()

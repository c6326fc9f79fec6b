"""The same digits on uneven machines: one of the trainers is three times slower.

Batches sleep, so that seven processes have room on two cores. `tools/draw_life.py` runs
this job, and lets one trainer join and others die.
"""

import argparse
import time

import digits
import torch
from torch.nn.functional import cross_entropy
from train import Reader

import paceline

RECORDS, EPOCHS, BATCH = 8_000, 10, 32
SLEEP_S = 0.03
SLOW, TIMES = "trainer-2", 3


def main() -> None:
    """Train; how fast, is a matter of who is asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    flags = parser.parse_args()
    torch.manual_seed(0)
    model = Reader()
    session = paceline.connect()
    sleep_s = SLEEP_S * (TIMES if session.trainer == SLOW else 1)
    optimizer = session.share(model, torch.optim.Adam(model.parameters(), lr=1e-3))
    data = digits.draw(RECORDS, seed=0)
    for images, labels in session.batches(data, batch_size=BATCH, epochs=flags.epochs):
        time.sleep(sleep_s)
        loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        session.log(loss=loss.item())


if __name__ == "__main__":
    main()

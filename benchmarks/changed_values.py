"""What looking for values that a script has changed costs, beside a dense step.

::

    python -m benchmarks.changed_values [--times 5]

The model of `benchmarks.dense`, batches of 8, Adam, one thread: a plain step, and beside it
what a trainer does to see changes (`paceline.trainer.model.watched_values`): versions at
every step, checksums at the first three and then every 128th, over a loop of 1,027 steps.
Both are timed in turns, in one process.

Exit status: 0; 1 if it costs more than one hundredth of the step.
"""

import argparse
import sys

import torch

from benchmarks.dense_loops import CLASSES, FEATURES, make_model
from benchmarks.record import say, spread
from paceline.timing import SystemClock
from paceline.trainer.model.watched_values import EVERY_STEPS, FIRST_STEPS, WatchedValues

BATCH, LOOKS = 8, 8
STEPS = FIRST_STEPS + EVERY_STEPS * LOOKS
AT_MOST = 0.01


def measure(clock: SystemClock) -> float:
    """What looking takes, as a share of the plain steps beside it."""
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    features = torch.randn(BATCH, FEATURES)
    labels = torch.randint(0, CLASSES, (BATCH,))
    named = list(model.named_parameters())
    watched = WatchedValues([one for _, one in named], [name for name, _ in named])
    stepping_s = looking_s = 0.0
    for _ in range(STEPS):
        begin_s = clock.now_s()
        watched.changed()
        looked_s = clock.now_s()
        torch.nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
        stepped_s = clock.now_s()
        watched.settled()
        watched.stepped()
        watched.rest()
        watched.changed()
        stepping_s += stepped_s - looked_s
        looking_s += (looked_s - begin_s) + (clock.now_s() - stepped_s)
    return looking_s / stepping_s


def main() -> int:
    """Print the shares and their median."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    shares = [measure(SystemClock()) for _ in range(flags.times)]
    found = spread(shares)
    told = f"{found.median:.2%} of a plain step ({found.least:.2%} to {found.most:.2%})"
    say(f"looking takes {told}; wanted: at most {AT_MOST:.0%}")
    return int(found.median > AT_MOST)


if __name__ == "__main__":
    sys.exit(main())

"""Eight trainers that nobody holds together, on images: what guards save.

::

    python -m benchmarks.pace.guarded
    python -m benchmarks.pace.guarded --seeds 1 --rate 0.1

The digits of `examples/images`, a network of one hidden layer, SGD with momentum, at one
learning rate for all: one at which a trainer by itself learns well. Trainers are threads
of one process with real servers, and pause in every step, so that all are at it at once:
a push is about seven updates old. Printed is the share of held-out digits that is read
right after the same number of records, and what the servers have counted of ages.

Exit status: 0; 1 if one trainer by itself does not learn, so that nothing is shown.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

import paceline
from benchmarks.record import ROOT, circumstances, say, write
from paceline.config import JobConfig, parse_pace
from paceline.launch.embedded import EmbeddedJob

sys.path.insert(0, str(ROOT / "examples" / "images"))

import digits

TRAINERS, SERVERS = 8, 2
RECORDS, HELD_OUT, BATCH, EPOCHS = 8_192, 1_000, 16, 4
MOMENTUM, PAUSE_S = 0.9, 0.01
LEARNS = 0.6  # held-out accuracy that a trainer by itself must come to
PACES = (
    "async",
    "async:scale=1",
    "async:warmup=500",
    "async:scale=1,warmup=500",
    "async:drop=4",
    "async:drop=4,old=again",
    "async:compensate=0.04",
    "ssp:1",
    "sync",
)


class Learned(NamedTuple):
    """One job: accuracy on held-out digits, and what servers have counted."""

    accuracy: float
    counters: dict[str, int]


def train(session: paceline.Session, rate: float, seed: int) -> float:
    """One trainer's script; what it reads right in the end."""
    torch.manual_seed(seed)
    images, labels = digits.draw(RECORDS, seed)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(digits.SIZE**2, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    sgd = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
    optimizer = session.share(model, sgd)
    for image, label in session.batches((images, labels), BATCH, epochs=EPOCHS, seed=seed):
        loss = nn.functional.cross_entropy(model(image), label)
        optimizer.zero_grad()
        loss.backward()
        time.sleep(PAUSE_S)
        optimizer.step()
    unseen, digit = digits.draw(HELD_OUT, 1_000_000 + seed)
    with torch.no_grad():
        return float((model(unseen).argmax(1) == digit).float().mean())


def run_once(pace: str, trainers: int, rate: float, seed: int) -> Learned:
    """One job to its end.

    Raises:
        RuntimeError: a trainer has failed.
    """
    config = JobConfig(
        run="guarded", trainers=trainers, servers=SERVERS, pace=parse_pace(pace)
    )
    found: list[float] = []
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as name:
        job = EmbeddedJob(config, Path(name) / "job")

        def act(index: int) -> None:
            found.append(train(job.session(f"trainer-{index}"), rate, seed))

        threads = [threading.Thread(target=act, args=(i,)) for i in range(trainers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counters = job.close()["counters"]
    if len(found) < trainers:
        raise RuntimeError(f"{pace}: {trainers - len(found)} of {trainers} trainers failed")
    assert isinstance(counters, dict)
    return Learned(found[0], counters)


def ages_of(counters: dict[str, int]) -> str:
    """The ages that servers have counted: ``0: 12 %, 4-7: 70 %``."""
    prefix = "part-0.age."
    ages = {n.removeprefix(prefix): c for n, c in counters.items() if prefix in n}
    total = sum(ages.values())
    order = sorted(ages, key=lambda name: int(name.split("-")[0]))
    return ", ".join(f"{name}: {ages[name] / total:.0%}" for name in order)


def main(arguments: Sequence[str]) -> int:
    """Train, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks.pace.guarded", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=0.1)
    flags = parser.parse_args(arguments[1:])
    torch.set_num_threads(1)
    where, rows = circumstances(arguments), []
    for who, trainers in (("async", 1), *((pace, TRAINERS) for pace in PACES)):
        runs = [run_once(who, trainers, flags.rate, seed) for seed in range(flags.seeds)]
        accuracy = [run.accuracy for run in runs]
        rows.append({"pace": who, "trainers": trainers, "accuracy": accuracy})
        counters = runs[0].counters
        say(
            f"{trainers} x {who:26} {statistics.median(accuracy):6.1%} "
            f"({min(accuracy):.1%} to {max(accuracy):.1%}), {counters.get('old', 0)} too "
            f"old; ages {ages_of(counters) or 'none'}"
        )
    write("guarded", {**where, "rows": rows})
    alone = rows[0]["accuracy"]
    return 0 if isinstance(alone, list) and statistics.median(alone) >= LEARNS else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))

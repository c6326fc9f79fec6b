"""What looking for values that a script has changed costs, beside a dense step.

::

    python -m benchmarks changed_values [--times 5] [--looks 8]

The model of `benchmarks dense`, batches of 8, Adam, one thread: a plain step, and beside it
what a trainer does to see changes (`paceline.trainer.model.watched`): versions and a
few values at every step, checksums at the first three and then every 128th, over a loop of
1,027 steps. Both are timed in turns, in one process.

Waits: for nothing but its own computing.
"""

import torch

from benchmarks.dense.loops import CLASSES, FEATURES, make_model
from benchmarks.harness.bench import Found, Run, bench, opt
from benchmarks.harness.figures import Figure, judged
from paceline.timing import SystemClock
from paceline.trainer.model.watched import EVERY_STEPS, FIRST_STEPS, WatchedValues

BATCH, LOOKS = 8, 8


def measure(clock: SystemClock, looks: int) -> float:
    """What looking takes, in hundredths of the plain steps beside it."""
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    features = torch.randn(BATCH, FEATURES)
    labels = torch.randint(0, CLASSES, (BATCH,))
    named = list(model.named_parameters())
    watched = WatchedValues([one for _, one in named], [name for name, _ in named])
    stepping_s = looking_s = 0.0
    for _ in range(FIRST_STEPS + EVERY_STEPS * looks):
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
    return 100 * looking_s / stepping_s


@bench(
    "changed_values",
    opt("times", 5),
    opt("looks", LOOKS, "whole ones, in a loop"),
    must=["changed-values"],
)
def main(run: Run) -> Found:
    """Measure the share some times."""
    torch.set_num_threads(1)
    clock, looks = SystemClock(), run.flags.looks
    shares = tuple(measure(clock, looks) for _ in range(run.flags.times))
    figure = Figure("looking for changed values, batches of 8", "ours", "ours", "%", shares)
    told = "a plain step and the looking beside it are timed in turns, in one process"
    # In a shorter loop the first steps, which are looked at as a whole, weigh more.
    ratios = [judged(figure, "changed-values")] if looks >= LOOKS else []
    return Found([figure], ratios, told)

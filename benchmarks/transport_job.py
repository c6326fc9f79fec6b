"""The true Pull and Push of one dense part, as a trainer of a job.

::

    python benchmarks/transport_job.py --bytes 4096 --trips 2000 --out result.json

The part is one parameter of so many bytes under plain SGD, in `sync`: there a server
acknowledges a push when it holds a copy, and applies it when its round is committed, so
that the time of a push has no optimizer in it. A pull is the trainer's own act: asked of
the server, landed in the parameter. Afterwards the parameter must be what plain SGD makes
of the same gradients, to the bit.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import nn

import paceline
from benchmarks.ctr_phases import PhaseClock, watched_trainer
from paceline.trainer.pushing import pull_part

LR = 0.25  # a power of two: the product with the gradient below is exact
GRADIENT = 0.5


def pull_seconds(session: paceline.Session, trips: int, warm: int) -> float:
    """The median seconds of a pull of part 0."""
    carrier, protocol = session._carrier, session._protocol
    part, servers = protocol.parts[0], tuple(protocol.servers)
    seconds = []
    for _ in range(warm + trips):
        began_s = time.perf_counter()
        carrier.run(pull_part(protocol._asking, part, servers, 0))
        seconds.append(time.perf_counter() - began_s)
    return statistics.median(seconds[warm:])


def push_seconds(
    session: paceline.Session,
    optimizer: torch.optim.Optimizer,
    parameter: nn.Parameter,
    trips: int,
    warm: int,
) -> float:
    """The median seconds from sending a push until it is acknowledged."""
    clock = PhaseClock()
    seconds = []
    gradient = torch.full_like(parameter, GRADIENT)
    with watched_trainer(clock):
        for _ in session.batches(torch.zeros(warm + trips, 1), 1, shuffle=False):
            parameter.grad = gradient
            clock.restart()
            optimizer.step()
            phases = clock.seconds()
            pushing = [spent for name, spent in phases.items() if name.startswith("push:")]
            seconds.append(sum(pushing))
    return statistics.median(seconds[warm:])


def run(
    session: paceline.Session, num_bytes: int, trips: int, warm: int
) -> dict[str, float]:
    """Pulls, then pushes: {"pull": seconds, "push": seconds}.

    Raises:
        ValueError: the parameter is not what plain SGD makes of the same gradients.
    """
    model = nn.ParameterList([nn.Parameter(torch.zeros(num_bytes // 4))])
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=LR))
    pulled_s = pull_seconds(session, trips, warm)
    pushed_s = push_seconds(session, optimizer, model[0], trips, warm)
    expected = -LR * GRADIENT * (warm + trips)
    if not torch.equal(model[0], torch.full_like(model[0], expected)):
        raise ValueError(
            f"expected {expected} everywhere, got {model[0].min()} to {model[0].max()}"
        )
    return {"pull": pulled_s, "push": pushed_s}


def main() -> None:
    """Be a trainer of the job that the environment names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--trips", type=int, required=True)
    parser.add_argument("--warm", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    found = run(paceline.connect(), flags.bytes, flags.trips, flags.warm)
    flags.out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()

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
from typing import Any

import torch
from torch import nn

import paceline
from benchmarks.harness.watching import Trips, watched
from paceline.messages.data import Pull, Pulled
from paceline.trainer.acts import Act, Ask
from paceline.trainer.protocol.protocol import TrainerProtocol

LR = 0.25  # a power of two: the product with the gradient below is exact
GRADIENT = 0.5
WARM = 0.2  # not counted, as a share


def pull(protocol: TrainerProtocol) -> Act[None]:
    """Fetch part 0 from all servers, as the trainer's own pulls do."""
    who: dict[str, Any] = {
        "incarnation": protocol.asking.incarnation,
        "timeline": protocol.asking.timeline,
    }
    replies = yield Ask(dict.fromkeys(protocol.servers, Pull(**who, part=0)))
    for server, reply in replies.items():
        if not isinstance(reply, Pulled):
            raise TypeError(f"{server} answered a pull with {reply}")


def pull_seconds(session: paceline.Session, count: int) -> float:
    """The median seconds of a pull of part 0, from asking until its memory is settled."""
    carrier = session.membership.carrier  # type: ignore[attr-defined]  # not for users
    seconds = []
    for _ in range(count):
        began_s = time.perf_counter()
        carrier.run(pull(carrier.protocol))
        seconds.append(time.perf_counter() - began_s)
    return statistics.median(seconds[round(WARM * count) :])


def step_seconds(
    session: paceline.Session,
    model: nn.ParameterList,
    optimizer: torch.optim.Optimizer,
    trips: Trips,
    steps: int,
) -> dict[str, float]:
    """Where a step spends its time, the median of many: {what: seconds}.

    ``push``: from sending it until its acknowledgement is here. ``after push``: from there
    to the end of the step, which has ticked and pulled.
    """
    found: list[tuple[float, float]] = []
    gradient = torch.full_like(model[0], GRADIENT)
    for _ in session.batches(torch.zeros(steps, 1), 1, shuffle=False):
        model[0].grad = gradient
        trips.take()
        optimizer.step()
        over_s = time.perf_counter()
        (push,) = [trip for trip in trips.take() if trip.kind == "Push"]
        found.append((push.seconds, over_s - push.received_s))
    pushes, afters = zip(*found[round(WARM * steps) :], strict=True)
    return {"push": statistics.median(pushes), "after push": statistics.median(afters)}


def run(
    session: paceline.Session, trips: Trips, num_bytes: int, count: int
) -> dict[str, float]:
    """Pulls by themselves, then steps: {"pull" or "step: Push" and so on: seconds}.

    Args:
        session: whose connections are watched.
        trips: what is seen of them.
        num_bytes: of the parameter.
        count: of pulls, and of steps.

    Raises:
        ValueError: the parameter is not what plain SGD makes of the same gradients.
    """
    model = nn.ParameterList([nn.Parameter(torch.zeros(num_bytes // 4))])
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=LR))
    pulled_s = pull_seconds(session, count)
    stepped = step_seconds(session, model, optimizer, trips, count)
    expected = -LR * GRADIENT * count
    if not torch.equal(model[0], torch.full_like(model[0], expected)):
        raise ValueError(
            f"expected {expected} everywhere, got {model[0].min()} to {model[0].max()}"
        )
    return {"pull": pulled_s, **stepped}


def main() -> None:
    """Be a trainer of the job that the environment names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--trips", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    with watched() as trips:
        found = run(paceline.connect(), trips, flags.bytes, flags.trips)
    flags.out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Multinomial logistic regression over all the data, by trainers that share the work.

One option says where the sum of an iteration's gradients comes from; all else is the same.

::

    push-pull    a table has a row for each iteration; each batch adds to it. When the first
                 batch of epoch e comes, row e - 1 is whole
    allreduce    trainers exchange the sums of their batches, and all add up the same totals

Three million flights (``--data flights``) are too many for that: their weights change with
every batch, see `hashed`.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import curves
import records
import softmax
import torch

import paceline


def push_pull(
    session: paceline.Session, descent: softmax.Descent, flags: argparse.Namespace
) -> None:
    """Sums of each iteration in a row of their own."""
    sums = session.table("sums", (None, flags.problem.num_statistics), "float64")
    for features, labels in batches(session, flags):
        catch_up(session, descent, sums, session.epoch)
        found = softmax.differentiate(features, labels, descent.point)
        sums.push([session.epoch], found[None])
    catch_up(session, descent, sums, flags.iterations)


def catch_up(
    session: paceline.Session,
    descent: softmax.Descent,
    sums: paceline.Table,
    epoch: int,
) -> None:
    """Pull the sums of the iterations before ``epoch`` that this trainer has not seen.

    Whoever joins late, or comes back from a cut, sees them all.
    """
    if epoch < descent.num_iterations:
        descent.begin_again()
    for done in range(descent.num_iterations, epoch):
        descent.advance(sums.pull([done])[0])
        session.log(loss=descent.losses[-1])


def allreduce(
    session: paceline.Session, descent: softmax.Descent, flags: argparse.Namespace
) -> None:
    """Sums between trainers; what they come to is every trainer's own."""
    pace = paceline.Sync(reduce="sum")
    table = session.table("sums", (1,), "float64", pace=pace)
    session.track(descent=descent)
    for features, labels in batches(session, flags):
        found = softmax.differentiate(features, labels, descent.point)
        descent.add(table.allreduce(found))
        if descent.losses:
            session.log(loss=descent.losses[-1])


FLIGHTS = ("flights", "made-up")
FLIGHT_MODELS = ("allreduce", "no-sync", "push-pull")
MODELS: dict[
    str, Callable[[paceline.Session, softmax.Descent, argparse.Namespace], None]
] = {"allreduce": allreduce, "push-pull": push_pull}


def batches(
    session: paceline.Session, flags: argparse.Namespace
) -> Iterator[tuple[softmax.Floats, softmax.Labels]]:
    """This trainer's share of all iterations; an epoch is an iteration."""
    features, labels = flags.train
    size = -(-len(labels) // flags.parts)
    # Places alone go through the loop: a part of the records lies as one piece, and half
    # of them need not be copied for each gradient.
    for (places,) in session.batches(
        (torch.arange(len(labels)),),
        size,
        epochs=flags.iterations,
        shuffle=False,
        task_size=size,
    ):
        part = slice(int(places[0]), int(places[-1]) + 1)
        yield features[part], labels[part]


def main() -> None:
    """Train, then classify what was held out in one trainer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="push-pull", help="of computation")
    parser.add_argument("--data", choices=(*records.NAMES, *FLIGHTS), default="digits")
    parser.add_argument("--seed", type=int, default=0, help="of the split, or of the order")
    parser.add_argument("--picture", type=Path, default=None, help="a PNG to draw")
    whole = parser.add_argument_group("over all the data")
    whole.add_argument("--iterations", type=int, default=150)
    whole.add_argument("--ridge", type=float, default=1e-3)
    whole.add_argument("--parts", type=int, default=4, help="batches of an iteration")
    steps = parser.add_argument_group("along batches of flights")
    steps.add_argument("--epochs", type=int, default=2)
    steps.add_argument("--batch-size", type=int, default=4096)
    steps.add_argument("--rate", type=float, default=0.05)
    steps.add_argument("--out", type=Path, default=None, help="an .npz of the weights")
    flags = parser.parse_args()
    known = FLIGHT_MODELS if flags.data in FLIGHTS else tuple(MODELS)
    if flags.model not in known:
        parser.error(
            f"--model: expected one of {', '.join(known)} for {flags.data}, "
            f"got {flags.model!r}"
        )
    if flags.data in FLIGHTS:
        import steps as along  # noqa: PLC0415  (compiled, and only where it is wanted)

        along.train(flags)
        return

    flags.train, test = records.load(flags.data, flags.seed)
    flags.problem = softmax.pose(*flags.train, flags.ridge)
    session = paceline.connect()
    descent = softmax.Descent(flags.problem)
    MODELS[flags.model](session, descent, flags)

    if session.once("report"):
        session.log(accuracy=softmax.accuracy(*test, descent.weights))
        if flags.picture is not None:
            losses = dict(enumerate(descent.losses))
            curves.draw(flags.picture, losses, ("iteration", "loss"), flags.data)


if __name__ == "__main__":
    main()

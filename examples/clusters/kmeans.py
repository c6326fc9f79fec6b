"""k-means, Lloyd's algorithm over all the data, by trainers that share the work.

One option says how the trainers work together, and nothing else changes: where a sum of
statistics comes from. In every model the centroids of an iteration are those that
`lloyd.plain` comes to.

::

    push-pull    a table has a row for each iteration; each batch adds to it. When the first
                 batch of epoch e comes, row e - 1 is whole: the queue gives out no epoch
                 before the one before it has counted. No barrier, no waiting but that.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import images
import lloyd
import numpy as np
from numpy.typing import NDArray

import paceline


class Course:
    """A run of Lloyd's algorithm: iteration after iteration, from sums that are whole.

    Attributes:
        centroids: after `num_iterations`.
        inertias: one an iteration, of the centroids before it.
        seconds: since the course began, when each iteration was known.
    """

    def __init__(self, start: lloyd.Centroids) -> None:
        self._start, self._began_s = start, time.monotonic()
        self.begin_again()

    def begin_again(self) -> None:
        """From the start: the job has gone back to a cut."""
        self.centroids = self._start
        self.inertias: list[float] = []
        self.seconds: list[float] = []

    @property
    def num_iterations(self) -> int:
        """How many are over."""
        return len(self.inertias)

    def advance(self, statistics: lloyd.Statistics) -> None:
        """One more iteration: its sums over all records."""
        self.inertias.append(lloyd.inertia(statistics, self.centroids))
        self.seconds.append(time.monotonic() - self._began_s)
        self.centroids = lloyd.moved(statistics, self.centroids)


def push_pull(session: paceline.Session, course: Course, flags: argparse.Namespace) -> None:
    """Sums of each iteration in a row of their own."""
    shape = lloyd.assign(flags.pixels[:1], course.centroids).shape
    sums = session.table("sums", (None, *shape), "float64")
    for batch in batches(session, flags):
        catch_up(session, course, sums, session.epoch)
        sums.push([session.epoch], lloyd.assign(batch, course.centroids)[None])
    catch_up(session, course, sums, flags.iterations)


def catch_up(
    session: paceline.Session, course: Course, sums: paceline.Table, epoch: int
) -> None:
    """Pull the sums of the iterations before ``epoch`` that this trainer has not seen.

    Whoever joins late, or comes back from a cut, sees them all.
    """
    if epoch < course.num_iterations:
        course.begin_again()
    for done in range(course.num_iterations, epoch):
        course.advance(sums.pull([done])[0])
        session.log(inertia=course.inertias[-1], iteration=done)


MODELS: dict[str, Callable[[paceline.Session, Course, argparse.Namespace], None]] = {
    "push-pull": push_pull,
}


def batches(
    session: paceline.Session, flags: argparse.Namespace
) -> Iterator[NDArray[np.uint8]]:
    """This trainer's share of all iterations; an epoch is an iteration."""
    size = -(-len(flags.pixels) // flags.parts)
    return session.batches(
        images.Views(flags.pixels),
        size,
        epochs=flags.iterations,
        shuffle=False,
        task_size=size,
        collate_fn=images.as_they_are,
    )


def main() -> None:
    """Cluster, then say what the clusters are worth in one trainer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(MODELS), default="push-pull")
    parser.add_argument("--data", choices=images.NAMES, default="digits")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument(
        "--parts",
        type=int,
        default=2,
        help="batches of an iteration: as many as trainers, or more",
    )
    parser.add_argument("--seed", type=int, default=6, help="of the start")
    parser.add_argument("--out", type=Path, default=None, help="an .npz: how it went")
    parser.add_argument("--picture", type=Path, default=None, help="a PNG to draw")
    flags = parser.parse_args()

    train, test = images.load(flags.data)
    flags.pixels = train.pixels
    session = paceline.connect()
    start = lloyd.choose_start(train.pixels, flags.k, flags.seed)
    lloyd.assign(train.pixels[:1], start)  # compiled before a clock runs
    course = Course(start)
    MODELS[flags.model](session, course, flags)

    if session.once("report"):
        last = lloyd.assign(train.pixels, course.centroids)
        found = lloyd.labels(test.pixels, course.centroids)
        session.log(
            inertia=lloyd.inertia(last, course.centroids),
            nmi=lloyd.mutual_information(found, test.labels),
            iteration=course.num_iterations,
        )
        if flags.out is not None:
            np.savez(
                flags.out,
                centroids=course.centroids,
                inertias=course.inertias,
                seconds=course.seconds,
            )
        if flags.picture is not None:
            import pictures  # noqa: PLC0415  (matplotlib: a second that only pictures cost)

            pictures.draw(flags.picture, course.inertias, course.seconds, course.centroids)


if __name__ == "__main__":
    main()

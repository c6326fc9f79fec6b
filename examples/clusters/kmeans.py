"""k-means, Lloyd's algorithm over all the data, by trainers that share the work.

One option says how the trainers work together, and nothing else changes: where a sum of
statistics comes from. In every model the centroids of an iteration are those that
`lloyd.plain` comes to.

::

    push-pull    a table has a row for each iteration; each batch adds to it. When the first
                 batch of epoch e comes, row e - 1 is whole: the queue gives out no epoch
                 before the one before it has counted. No barrier, no waiting but that.
    allreduce    trainers exchange the statistics of their batches, and all add up the same
                 totals; when all records are in them, all move the same centroids
    regroup-allgather    the same in two hops, of fewer bytes where there are many trainers
    rotation     blocks of centroids go round the trainers, each with a part of the points:
                 once for the distances, once for the sums. Nobody ever holds all centroids.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

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

    def __init__(self, start: lloyd.Centroids, num_points: int) -> None:
        self._start, self._num_points = start, num_points
        self._began_s = time.monotonic()
        self.begin_again()

    def begin_again(self) -> None:
        """From the start: the job has gone back to a cut."""
        self.centroids = self._start
        self.inertias: list[float] = []
        self.seconds: list[float] = []
        self._sums = np.zeros((len(self._start), self._start.shape[1] + 2))

    @property
    def num_iterations(self) -> int:
        """How many are over."""
        return len(self.inertias)

    def advance(self, statistics: lloyd.Statistics) -> None:
        """One more iteration: its sums over all records."""
        self.note(lloyd.inertia(statistics, self.centroids))
        self.centroids = lloyd.moved(statistics, self.centroids)

    def add(self, statistics: lloyd.Statistics) -> None:
        """Of some records; with the last of an iteration it is over."""
        self._sums += statistics
        if lloyd.count(self._sums) == self._num_points:
            self.advance(self._sums)
            self._sums = np.zeros_like(self._sums)

    def note(self, inertia: float) -> None:
        """One more iteration is over, of this inertia."""
        self.inertias.append(inertia)
        self.seconds.append(time.monotonic() - self._began_s)

    def state_dict(self) -> dict[str, object]:
        """For whoever joins, and for checkpoints."""
        return {
            "centroids": self.centroids,
            "inertias": list(self.inertias),
            "seconds": list(self.seconds),
            "sums": self._sums.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where another trainer is."""
        self.centroids = np.array(state["centroids"])
        self.inertias, self.seconds = list(state["inertias"]), list(state["seconds"])
        self._sums = np.array(state["sums"])


def allreduce(
    session: paceline.Session,
    course: Course,
    flags: argparse.Namespace,
    how: Literal["allreduce", "regroup+allgather"] = "allreduce",
) -> None:
    """Sums between trainers; what they come to is every trainer's own."""
    pace = paceline.Sync(reduce="sum")
    table = session.table("sums", (1,), "float64", pace=pace)
    session.track(course=course)
    for batch in batches(session, flags):
        course.add(table.allreduce(lloyd.assign(batch, course.centroids), how=how))
        if course.inertias:
            session.log(inertia=course.inertias[-1], iteration=course.num_iterations - 1)


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


def rotate(session: paceline.Session, course: Course, flags: argparse.Namespace) -> None:
    """Centroids go round twice an iteration, with their sums.

    A row of the table is a centroid, its statistics, and its iteration: whoever has it
    first in the next one moves it. All points meet all centroids, so a record of this loop
    is a visit: a share of the points beside a block of centroids.
    """
    k, dim = course.centroids.shape
    blocks = min(k, 2 * flags.parts)  # one is computed while another one travels
    begins = np.c_[course.centroids, np.zeros((k, dim + 3))]
    table = session.table("centroids", begins.shape, "float64", init=begins, blocks=blocks)
    notes = session.table("notes", (None, k), "float64")  # inertias of each, by iteration
    visits = np.arange(flags.parts * blocks)
    size = -(-len(flags.pixels) // flags.parts)
    shares: dict[int, Share] = {}
    for cell in table.rotate(
        visits,
        by=visits % blocks * k // blocks,
        group=visits // blocks,
        parts=flags.parts,
        epochs=2 * flags.iterations,
        seed=flags.seed,
    ):
        iteration, is_second = divmod(session.epoch, 2)
        rows = Rows(cell.rows)
        share = shares.get(cell.part)
        if share is None or share.iteration != iteration:
            points = flags.pixels[cell.part * size : (cell.part + 1) * size]
            share = shares[cell.part] = Share(points, iteration)
        if is_second:
            look_back(session, course, notes, iteration)
            if len(share.met) < k:  # another trainer had this share in the first round
                share.meet(0, Rows(table.pull()).centroids)
            rows.statistics += share.sums_of(cell.ids)
            continue
        if rows.iteration < iteration:
            inertias = np.zeros(k)
            inertias[cell.ids] = rows.move()
            notes.push([iteration - 1], inertias[None])
        share.meet(int(cell.ids[0]), rows.centroids)
    rows = Rows(table.pull())
    look_back(session, course, notes, flags.iterations - 1)
    course.note(float(rows.move().sum()))
    course.centroids = rows.centroids


class Rows:
    """Rows of the rotating table: centroids, their statistics, and their iteration."""

    def __init__(self, rows: NDArray[np.float64]) -> None:
        dim = (rows.shape[1] - 3) // 2
        self.centroids, self.statistics = rows[:, :dim], rows[:, dim:-1]
        self._iterations = rows[:, -1]

    @property
    def iteration(self) -> int:
        """Of all of them."""
        return int(self._iterations[0])

    def move(self) -> NDArray[np.float64]:
        """To the next iteration, with nothing added yet; the inertias of the last one."""
        inertias = lloyd.inertia_of_each(self.statistics, self.centroids)
        self.centroids[:] = lloyd.moved(self.statistics, self.centroids)
        self.statistics[:] = 0
        self._iterations += 1
        return inertias


class Share:
    """A part of the points, in one iteration, and the centroids that it has met."""

    def __init__(self, points: NDArray[np.uint8], iteration: int) -> None:
        self.iteration = iteration
        self.met: set[int] = set()
        self._dim = points.shape[1]
        self._nearest = lloyd.Nearest(points)

    def meet(self, first: int, centroids: lloyd.Centroids) -> None:
        """Measure the distances to centroids, numbered from ``first``."""
        self._nearest.meet(first, centroids)
        self.met.update(range(first, first + len(centroids)))

    def sums_of(self, ids: NDArray[np.int64]) -> lloyd.Statistics:
        """Statistics of these centroids, of the points that are nearest to them."""
        statistics = np.zeros((len(ids), self._dim + 2))
        self._nearest.add_to(int(ids[0]), statistics)
        return statistics


def look_back(
    session: paceline.Session, course: Course, notes: paceline.Table, iteration: int
) -> None:
    """Note the inertias of the iterations before, which all centroids have left."""
    if iteration < course.num_iterations:
        course.begin_again()
    for done in range(course.num_iterations, iteration):
        course.note(float(notes.pull([done])[0].sum()))
        session.log(inertia=course.inertias[-1], iteration=done)


MODELS: dict[str, Callable[[paceline.Session, Course, argparse.Namespace], None]] = {
    "allreduce": allreduce,
    "regroup-allgather": partial(allreduce, how="regroup+allgather"),
    "push-pull": push_pull,
    "rotation": rotate,
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
    course = Course(start, len(train.pixels))
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

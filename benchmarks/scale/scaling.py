"""What a step of a trainer sends, with one to four servers and trainers, in counts.

::

    python -m benchmarks scaling [--sizes 1,2,4] [--steps 20]

A dense part of 1 MiB and a table of which a step looks up 4,096 distinct ids, `sync` and
`async`, trainers and servers as threads of one process. Counted at the trainers'
connections, of the median step:

    messages      questions and replies
    round trips   times that it had to wait: questions that are out together count once
    KiB           both ways, as frames; what goes through shared memory counts as well

More servers must not mean more bytes, nor more round trips; more trainers must not mean
more of either for one of them. Counts are the same on every machine, however busy: a goal
that is missed is a defect.
"""

import itertools
import statistics
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

import paceline
from benchmarks.harness.bench import Found, Run, bench, opt
from benchmarks.harness.figures import COUNTS, Figure, Ratio, compared
from benchmarks.harness.record import say
from benchmarks.harness.watching import Trip, watched
from paceline.config import JobConfig, parse_pace
from paceline.launch.embedded import EmbeddedJob

SIDE = 512  # of the dense parameter: SIDE * SIDE float32 are 1 MiB
DIM = 16
IDS = 4096  # of a step
KINDS = frozenset({"Push", "Pull", "PullRows", "Tick"})  # what a step asks
TASKS = 4  # of each trainer: the median step leases nothing
JOIN_S = 120.0


class Case(NamedTuple):
    """A job's size and pace."""

    pace: str
    servers: int
    trainers: int

    def __str__(self) -> str:
        """For the tables."""
        return f"{self.pace}, servers: {self.servers}, trainers: {self.trainers}"


class Counts(NamedTuple):
    """Of one step of one trainer."""

    messages: float
    round_trips: float
    kib: float


UNITS = dict(zip(COUNTS, Counts._fields, strict=True))  # {unit: field}


def round_trips(trips: Sequence[Trip]) -> int:
    """How often somebody waited: trips that overlap are one."""
    count, until_s = 0, float("-inf")
    for trip in sorted(trips, key=lambda trip: trip.sent_s):
        count += trip.sent_s >= until_s
        until_s = max(until_s, trip.received_s)
    return count


def counts_of(steps: Sequence[Sequence[Trip]]) -> Counts:
    """The median step."""
    asked = [[trip for trip in step if trip.kind in KINDS] for step in steps]
    sizes = [sum(t.sent_bytes + t.received_bytes for t in step) / 1024 for step in asked]
    return Counts(
        statistics.median(2 * len(step) for step in asked),
        statistics.median(map(round_trips, asked)),
        statistics.median(sizes),
    )


def count(case: Case, steps: int, folder: Path) -> Counts:
    """Run a job of this size, and count the steps of its first trainer."""
    config = JobConfig(
        run="scaling",
        trainers=case.trainers,
        servers=case.servers,
        pace=parse_pace(case.pace),
        cut_every_s=0.0,
    )
    taken: dict[int, list[list[Trip]]] = {}  # {trainer: trips of each step}
    with watched() as seen:
        job = EmbeddedJob(config, folder)
        try:
            threads = [
                threading.Thread(
                    target=_train,
                    args=(job.session(f"trainer-{number}"), seen.taken, steps, case),
                    kwargs={"found": taken.setdefault(number, [])},
                )
                for number in range(case.trainers)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(JOIN_S)
                if thread.is_alive():
                    raise TimeoutError(f"{case}: not over after {JOIN_S:g} s")
        finally:
            job.close()
    return counts_of([step for found in taken.values() for step in found])


def _train(
    session: paceline.Session,
    seen: list[Trip],
    steps: int,
    case: Case,
    *,
    found: list[list[Trip]],
) -> None:
    """Be a trainer: ``found`` gets the trips of each of its steps."""
    rows = paceline.Embedding("rows", DIM, optimizer=paceline.Adagrad(lr=0.05))
    dense = nn.Linear(SIDE, SIDE, bias=False)
    model = nn.ModuleList([rows, dense])
    optimizer = session.share(model, torch.optim.SGD(dense.parameters(), lr=0.0))
    me, ids = threading.get_ident(), torch.arange(IDS)
    data, task = torch.ones(steps * case.trainers, SIDE), max(1, steps // TASKS)
    for batch in session.batches(data, 1, task_size=task):
        before = len(seen)
        (rows(ids).sum() + dense(batch).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append([trip for trip in seen[before:] if trip.thread == me])


def figures_of(counts: dict[Case, Counts]) -> list[Figure]:
    """Counts by case; they have no spread."""
    return [
        Figure(f"{unit} of a step, {case.pace}", str(case), "ours", unit, (value,))
        for unit, what in UNITS.items()
        for case, found in counts.items()
        for value in (getattr(found, what),)
    ]


def ratios_of(figures: Sequence[Figure], counts: dict[Case, Counts]) -> list[Ratio]:
    """Bytes and round trips of the smallest job by those of every other of its pace."""
    by_name = {(figure.unit, figure.who): figure for figure in figures}
    ratios = []
    for unit in ("round trips", "KiB"):
        for case in counts:
            first = next(one for one in counts if one.pace == case.pace)
            if case != first:
                ours, other = by_name[unit, str(case)], by_name[unit, str(first)]
                ratios.append(compared(ours, other, "counts"))
    return ratios


@bench(
    "scaling",
    opt("sizes", (1, 2, 4), "numbers of servers and trainers"),
    opt("steps", 20, "of each trainer"),
    must=["counts"],
)
def main(run: Run) -> Found:
    """Count each size of a job."""
    torch.set_num_threads(1)
    sizes, counts = run.flags.sizes, dict[Case, Counts]()
    for case in itertools.starmap(Case, itertools.product(("sync", "async"), sizes, sizes)):
        counts[case] = count(case, run.flags.steps, run.place() / "job")
        say(f"{case}: {counts[case]}")
    figures = figures_of(counts)
    told = "counts of the same step, whatever the numbers of servers and trainers"
    return Found(figures, ratios_of(figures, counts), told)

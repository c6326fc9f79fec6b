"""A status as one line, and how fast records go.

::

    12 s  epoch 2  10,240 of 20,000 records (51 %)  4,120 records/s  loss 0.6931  \
trainers 2

Pure: time is an argument.
"""

from collections import deque
from typing import final

from paceline.messages import JobStatus
from paceline.watch.waits import standstill

SPAN_S = 5.0


@final
class Rate:
    """Records per second over the last few seconds."""

    def __init__(self) -> None:
        """Nothing has been seen."""
        self._seen: deque[tuple[float, int]] = deque()  # (seconds, records)
        self._moved_s = 0.0  # when the count was another last

    def note(self, records: int, now: float) -> None:
        """Take note of a count; one that falls (a return to a cut) starts afresh."""
        if self._seen and records < self._seen[-1][1]:
            self._seen.clear()
        if not self._seen or records != self._seen[-1][1]:
            self._moved_s = now
        self._seen.append((now, records))
        while len(self._seen) > 2 and now - self._seen[1][0] >= SPAN_S:
            self._seen.popleft()

    def stands_s(self) -> float:
        """How long the count has been the same, when it was noted last."""
        return self._seen[-1][0] - self._moved_s if self._seen else 0.0

    def per_second(self) -> float:
        """0 until two moments have been seen."""
        if len(self._seen) < 2:
            return 0.0
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0


def num_trainers(status: JobStatus) -> int:
    """Trainers that are members now."""
    return sum(process.role == "trainer" for process in status.processes)


def describe(
    status: JobStatus, rate: float, restarts: int, stands_s: float = 0.0
) -> list[str]:
    """What there is to say beside the count of records, piece by piece.

    ``stands_s``: how long that has been the same.
    """
    pieces = [] if status.state == "running" else [status.state]
    if is_training(status):
        pieces += [f"epoch {status.queue.epoch + 1}", f"{rate:,.0f} records/s"]
    if status.changing is not None or status.pace.startswith("auto"):
        pieces.append(f"pace {status.pace}{' (changing)' if status.changing else ''}")
    for name, value in status.metrics.items():
        pieces.append(f"{name} " + ("not finite" if value is None else f"{value:.4g}"))
    pieces.append(f"trainers {num_trainers(status)}")
    if restarts:
        pieces.append(f"restarts {restarts}")
    if (held_up := standstill(status.processes, stands_s)) is not None:
        pieces.append(held_up)
    return pieces


def is_training(status: JobStatus) -> bool:
    """Whether records are trained now, not evaluated."""
    return status.kind == "train"


def task_counts(status: JobStatus) -> tuple[int, int]:
    """Tasks of the current epoch that are over, and all of them."""
    queue = status.queue
    over = queue.done + queue.failed
    return over, over + queue.todo + queue.pending


def describe_records(status: JobStatus) -> str:
    """The count of records, with its share of the whole when that is known.

    While an evaluation runs, how far that is.
    """
    if not is_training(status):
        over, tasks = task_counts(status)
        return f"{status.kind}: {over:,} of {tasks:,} tasks"
    if not status.total_records:
        return f"{status.records:,} records"
    percent = 100 * status.records // status.total_records
    return f"{status.records:,} of {status.total_records:,} records ({percent} %)"


def one_line(
    status: JobStatus,
    rate: float,
    restarts: int,
    seconds: float,
    stands_s: float = 0.0,
) -> str:
    """All of it in a line."""
    pieces = describe(status, rate, restarts, stands_s)
    return "  ".join([f"{seconds:.0f} s", describe_records(status), *pieces])

"""A status as one line, how fast records go, and who holds them up.

::

    12 s  epoch 2  10,240 of 20,000 records (51 %)  4,120 records/s  loss 0.6931  \
trainers 2

Pure: time is an argument.
"""

import math
from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple, final

from paceline.messages.shared import StageKind
from paceline.messages.waits import MOST_NAMED, Wait, listed
from paceline.messages.watching import JobStatus, ProcessStatus
from paceline.timing import in_words

SPAN_S = 5.0
MOST_SEEN = 2400  # counts within a span
LEAST_S = 1.0  # shorter waits belong to every step
STANDSTILL_S = 10.0  # then the progress line tells


@final
class Growth:
    """How fast a count has grown over the last seconds: rounds make it grow in jumps."""

    def __init__(self, over_s: float, silence_s: float = math.inf) -> None:
        """Nothing is known yet; it starts afresh behind more than ``silence_s``."""
        self._over_s, self._silence_s = over_s, silence_s
        # (seconds, count), of a clock that may be set back
        self._seen: deque[tuple[float, int]] = deque(maxlen=MOST_SEEN)

    def add(self, seconds: float, count: int) -> float | None:
        """By how much a second, by the count of now; 0 where it falls, None at first."""
        seen = self._seen
        if seen and seconds - seen[-1][0] > self._silence_s:
            seen.clear()
        has_fallen = bool(seen) and count < seen[-1][1]
        if has_fallen:
            seen.clear()
        while len(seen) > 1 and seconds - seen[1][0] >= self._over_s:
            seen.popleft()
        seen.append((seconds, count))
        if has_fallen:
            return 0.0
        first_s, first = seen[0]
        return (count - first) / (seconds - first_s) if seconds > first_s else None


@final
class Rate:
    """Records per second over the last few seconds."""

    def __init__(self) -> None:
        self._growth, self._per_second = Growth(SPAN_S), 0.0
        self._kind: StageKind = "train"  # of the stage that they are of
        self._stands_at: tuple[StageKind, int] | None = None  # the count, and since when
        self._moved_s = self._noted_s = 0.0

    def note(self, status: JobStatus, now: float) -> None:
        """Take note of how far the job is.

        It starts afresh behind what is neither a loop nor an evaluation (the start of the
        run, the script's own work), and where the count falls (a return to a cut).
        """
        records, _ = worked_off(status)
        if status.kind != self._kind or not is_working(status):
            self._growth, self._per_second = Growth(SPAN_S), 0.0
        self._kind = status.kind
        if (status.kind, records) != self._stands_at:
            self._stands_at, self._moved_s = (status.kind, records), now
        self._noted_s = now
        if is_working(status):
            self._per_second = self._growth.add(now, records) or 0.0

    def stands_s(self) -> float:
        """How long the count has been the same, when it was noted last."""
        return self._noted_s - self._moved_s

    def per_second(self) -> float:
        """0 until two moments have been seen."""
        return self._per_second


def went_back(before: JobStatus, now: JobStatus) -> str | None:
    """What to say where all have gone back to a checkpoint since ``before``; else None.

    Records that were counted between the two are not known, so it is about how many. A
    changed pace leaves a timeline, too, and no record is trained again.
    """
    again = before.records - now.records
    if now.timeline <= before.timeline or again <= 0:
        return None
    place = f"checkpoint {now.cut}" if now.records else "the beginning"
    return f"all go back to {place}: about {again:,} records are trained again"


def describe(
    status: JobStatus, rate: float, restarts: int, stands_s: float = 0.0
) -> list[str]:
    """What there is to say beside the count of records, piece by piece.

    ``stands_s``: how long that has been the same. What holds it up comes first: a terminal
    cuts off what it has no room for. Troubles of disks have lines of their own.
    """
    pieces = [] if status.state == "running" else [status.state]
    if (held_up := standstill(status.processes, stands_s)) is not None:
        pieces.append(held_up)
    if is_training(status):
        pieces.append(f"epoch {status.epoch}")
    if is_working(status):
        pieces.append(f"{rate:,.0f} records/s")
    elif status.trained is not None and status.state == "running":
        pieces.append("no loop is running")
    if status.changing is not None or status.pace.startswith("auto"):
        pieces.append(f"pace {status.pace}{' (changing)' if status.changing else ''}")
    for name, value in status.metrics.items():
        pieces.append(f"{name} " + ("not finite" if value is None else f"{value:.4g}"))
    pieces.append(_trainers(status.processes))
    if restarts:
        pieces.append(f"restarts {restarts}")
    return pieces


def _trainers(processes: Sequence[ProcessStatus]) -> str:
    """How many trainers there are; and on which hosts, if the job has several."""
    at = Counter(process.host for process in processes if process.role == "trainer")
    hosts = [f"{host} {count}" for host, count in sorted(at.items())]
    on = listed(hosts[:MOST_NAMED], len(hosts))
    is_far = len({process.host for process in processes if process.host}) > 1
    return f"trainers {at.total()}" + (f" ({on})" if is_far else "")


def is_training(status: JobStatus) -> bool:
    """Whether records are trained now, not evaluated."""
    return status.kind == "train"


def is_working(status: JobStatus) -> bool:
    """Whether an evaluation, or a loop that has had its first batch, is under way."""
    is_open = bool(status.queue.todo or status.queue.pending)
    return is_open and (status.trained is not None or not is_training(status))


def worked_off(status: JobStatus) -> tuple[int, int]:
    """Records that are trained, of all; or those of an evaluation, while one runs."""
    if is_training(status):
        return status.records, status.total_records
    return status.stage_records, status.stage_total


def describe_records(status: JobStatus) -> str:
    """The count of records, or how far an evaluation is; its share of a known whole."""
    records, total = worked_off(status)
    what = "" if is_training(status) else f"{status.kind}: "
    if not total:
        return f"{what}{records:,} records"
    return f"{what}{records:,} of {total:,} records ({100 * records // total} %)"


def one_line(
    status: JobStatus, rate: float, restarts: int, seconds: float, stands_s: float = 0.0
) -> str:
    """All of it in a line."""
    pieces = describe(status, rate, restarts, stands_s)
    return "  ".join([f"{seconds:.0f} s", describe_records(status), *pieces])


class WaitedFor(NamedTuple):
    """A role that is waited for; ``by`` whom, the longest of these waits first."""

    role: str  # empty: nobody knows whom
    by: tuple[str, ...]
    longest: Wait

    def described(self, most: int = MOST_NAMED) -> str:
        """In a line, so many of those who wait by name."""
        whom = f"{self.role} is waited for" if self.role else "waiting"
        by = listed(self.by[:most], len(self.by))
        lasts = in_words(self.longest.since_s)
        return f"{whom} ({self.longest.kind}) by {by}, the longest since {lasts}"


def waited_for(
    processes: Sequence[ProcessStatus], least_s: float = LEAST_S
) -> list[WaitedFor]:
    """Who is waited for, and waits for nobody: first whom most wait for.

    Where all wait in a circle, all of it is told; waits shorter than ``least_s`` are none.
    """
    waiting = {p.id: p.wait for p in processes if p.wait and p.wait.since_s >= least_s}
    found: dict[str, list[str]] = {}  # {role: who waits for it}
    for waiter, wait in waiting.items():
        for role in wait.whom or ("",):
            found.setdefault(role, []).append(waiter)
    at_end = {role: by for role, by in found.items() if role not in waiting} or found
    told = []
    for role, waiters in at_end.items():
        by = sorted(waiters, key=lambda one: (-waiting[one].since_s, one))
        told.append(WaitedFor(role, tuple(by), waiting[by[0]]))
    return sorted(told, key=lambda one: (-len(one.by), -one.longest.since_s, one.role))


def standstill(processes: Sequence[ProcessStatus], stands_s: float) -> str | None:
    """A clause on who is waited for, if records have stood still for too long."""
    told = waited_for(processes, STANDSTILL_S) if stands_s >= STANDSTILL_S else []
    if not told:
        return None
    role, _, longest = told[0]
    others = f" and {len(told) - 1} others" if len(told) > 1 else ""
    whom = f"for {role}{others} " if role else ""
    return f"waits {whom}({longest.kind}, {longest.since_s:.0f} s)"

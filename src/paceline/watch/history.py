"""``events.jsonl`` as curves and marks: what a drawing of a run is made of.

Lines that cannot be read are left out: a running job may be writing the last one.

Pure.
"""

import itertools
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, final

import msgspec

MarkKind = Literal["died", "came back"]


class Progress(NamedTuple):
    """How far the job was at a moment; ``trainers`` is {trainer id: its own records}."""

    seconds: float
    records: int
    trainers: dict[str, int]


class Logged(NamedTuple):
    """A number that a trainer logged when the job had counted ``records``."""

    records: int
    value: float


class Mark(NamedTuple):
    """A process died or came back."""

    seconds: float
    records: int
    kind: MarkKind
    role: str


@final
class History:
    """A run, as its events tell it."""

    def __init__(self) -> None:
        """Nothing has happened."""
        self.progress: list[Progress] = []
        self.metrics: dict[str, dict[str, list[Logged]]] = {}  # {metric: {trainer: ...}}
        self.marks: list[Mark] = []
        self._start_t: float | None = None
        self._known: set[str] = set()  # roles that have been seen alive
        self._records = 0

    def add(self, event: dict[str, Any]) -> None:  # Any: fields differ by event
        """Take note of one event."""
        t = float(event["t"])
        self._start_t = t if self._start_t is None else self._start_t
        seconds, name = t - self._start_t, str(event["event"])
        if name == "EventsMoved":
            self._start_t = float(event["began"])
        if name == "progress":
            self._records = int(event["records"])
            trainers = {str(k): int(v) for k, v in event.get("trainers", {}).items()}
            self.progress.append(Progress(seconds, self._records, trainers))
        elif name == "log":
            self._add_numbers(event)
        elif name in {"TrainerLost", "ServerLost"}:
            self._mark(seconds, "died", _role(event))
        elif name in {"TrainerJoined", "ServerJoined", "CoordinatorStarted"}:
            role = _role(event)
            if role in self._known:
                self._mark(seconds, "came back", role)
            self._known.add(role)

    def _add_numbers(self, event: dict[str, Any]) -> None:  # Any: see add
        trainer, records = str(event["trainer"]), int(event.get("records", self._records))
        for metric, value in event["numbers"].items():
            if value is not None:
                series = self.metrics.setdefault(metric, {}).setdefault(trainer, [])
                series.append(Logged(records, float(value)))

    def _mark(self, seconds: float, kind: MarkKind, role: str) -> None:
        self.marks.append(Mark(seconds, self._records, kind, role))


def read_history(lines: Iterable[bytes]) -> History:
    """Read the lines of an ``events.jsonl``."""
    history = History()
    for line in lines:
        try:
            history.add(msgspec.json.decode(line, type=dict[str, Any]))
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
            continue  # msgspec's own errors are of values, too
    return history


def rates(progress: list[Progress]) -> list[tuple[float, float]]:
    """(seconds, records per second) between neighboring moments; a return counts as 0."""
    return [
        (after.seconds, max(0.0, (after.records - before.records) / step_s))
        for before, after in itertools.pairwise(progress)
        if (step_s := after.seconds - before.seconds) > 0
    ]


def smoothed(points: list[Logged], share: float = 0.05) -> list[Logged]:
    """The mean over a centered window of ``share`` of the points, in order of records."""
    ordered = sorted(points)
    sums = [0.0, *itertools.accumulate(point.value for point in ordered)]
    reach = int(share * len(ordered) / 2)
    result = []
    for n, point in enumerate(ordered):
        first, stop = max(0, n - reach), min(len(ordered), n + reach + 1)
        mean = (sums[stop] - sums[first]) / (stop - first)
        result.append(Logged(point.records, mean))
    return result


def own_records(progress: list[Progress]) -> dict[str, list[int]]:
    """{trainer: its own records at each moment}; one that is gone keeps its last count."""
    names = sorted({name for moment in progress for name in moment.trainers})
    counts: dict[str, list[int]] = {name: [] for name in names}
    for moment in progress:
        for name, series in counts.items():
            last = series[-1] if series else 0
            series.append(moment.trainers.get(name, last))
    return counts


def _role(event: dict[str, Any]) -> str:  # Any: see History.add
    return str(event.get("trainer") or event.get("server") or "coordinator")

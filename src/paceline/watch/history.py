"""``events.jsonl`` as curves and marks: what a drawing of a run is made of.

Lines that cannot be read are left out: a running job may be writing the last one. So are
the seconds between a run and the one that goes on with it, and what trainers began to count
anew in it.

Pure.
"""

import itertools
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, final

import msgspec

MarkKind = Literal["died", "came back", "pace", "scaled", "resumed"]


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
    """Something changed: ``what`` is a role that died or came back, or the new state."""

    seconds: float
    records: int
    kind: MarkKind
    what: str


@final
class History:
    """A run, as its events tell it."""

    def __init__(self) -> None:
        self.progress: list[Progress] = []
        self.metrics: dict[str, dict[str, list[Logged]]] = {}  # {metric: {trainer: ...}}
        self.marks: list[Mark] = []
        self.records = 0  # as they were told last
        self._start_t: float | None = None
        self._last_t = 0.0
        self._num_runs = 0
        self._dead: set[str] = set()
        self._stage = -1  # of the last lease
        self._counts: dict[str, _Count] = {}  # {trainer: its own records}
        self._trained = _Count()  # seconds in loops

    def records_per_second(self) -> float | None:
        """The rate while loops trained; None if that is not told."""
        seconds = self._trained.total
        return self.records / seconds if seconds > 0 else None

    def add(self, event: dict[str, Any]) -> None:  # Any: fields differ by event
        """Take note of one event."""
        t, name = float(event["t"]), str(event["event"])
        if self._start_t is None:
            self._start_t = t
        if name == "RunBegun":
            self._begin_run(t)
        self._last_t = t
        seconds = t - self._start_t
        if name == "EventsMoved":
            self._start_t = float(event["began"])
        elif name in {"progress", "closed"}:
            self._note_progress(seconds, event, is_last=name == "closed")
        elif name == "log":
            self._add_numbers(event)
        elif name == "LeaseGranted":
            self._note_lease(seconds, event["lease"])
        else:
            self._note_change(seconds, name, event)

    def _begin_run(self, t: float) -> None:
        """The job begins, or goes on as if it had never stopped."""
        assert self._start_t is not None
        self._num_runs += 1
        if self._num_runs > 1:
            self._start_t += t - self._last_t
            self._mark(t - self._start_t, "resumed", "resumed")
            self._stage = -1
            self._dead.clear()

    def _note_progress(
        self, seconds: float, event: dict[str, Any], *, is_last: bool
    ) -> None:  # Any: see add
        self.records = int(event["records"])
        self._trained.note(float(event.get("trained_s", 0.0)))
        if not is_last:
            for trainer, records in event.get("trainers", {}).items():
                self._counts.setdefault(str(trainer), _Count()).note(int(records))
            self._moment(seconds)

    def _note_lease(self, seconds: float, lease: dict[str, Any]) -> None:  # Any: see add
        """What lies before a stage's first lease is no slowness of the stage."""
        stage = int(lease["key"][0])
        if stage != self._stage:
            self.records = max(self.records, int(lease["records"]))
            self._moment(seconds)
        self._stage = stage

    def _moment(self, seconds: float) -> None:
        trainers = {trainer: int(count.total) for trainer, count in self._counts.items()}
        self.progress.append(Progress(seconds, self.records, trainers))

    def _note_change(
        self, seconds: float, name: str, event: dict[str, Any]
    ) -> None:  # Any: see add
        role = _role(event)
        if name in {"TrainerLost", "ServerLost"}:
            self._dead.add(role)
            self._mark(seconds, "died", role)
        elif name in {"TrainerJoined", "ServerJoined"} and role in self._dead:
            self._dead.remove(role)
            self._mark(seconds, "came back", role)
        elif name == "PaceChanged":
            self._mark(seconds, "pace", ", ".join(sorted(set(event["paces"].values()))))
        elif name == "Scaled":
            self._mark(seconds, "scaled", f"{int(event['trainers'])} trainers")

    def _add_numbers(self, event: dict[str, Any]) -> None:  # Any: see add
        trainer, records = str(event["trainer"]), int(event.get("records", self.records))
        for metric, value in event["numbers"].items():
            if value is not None:
                series = self.metrics.setdefault(metric, {}).setdefault(trainer, [])
                series.append(Logged(records, float(value)))

    def _mark(self, seconds: float, kind: MarkKind, what: str) -> None:
        self.marks.append(Mark(seconds, self.records, kind, what))


@final
class _Count:
    """A count that begins anew with each coordinator, added up."""

    def __init__(self) -> None:
        self.total = self._last = 0.0

    def note(self, value: float) -> None:
        self.total += value - self._last if value >= self._last else value
        self._last = value


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

"""A job's figures as Prometheus reads them, at /metrics of `paceline dashboard`.

Names follow Prometheus: base units, ``_total`` for what only grows. What a process counts
begins anew when another takes its place, as counters may.

::

    paceline_records_total{trainer}            paceline_processes_lost_total{role,kind}
    paceline_tasks{state}                      paceline_returns_total
    paceline_clock_steps{trainer}              paceline_checkpoints_total
    paceline_round_waited_seconds_total{trainer}    waited by others, for who comes last
    paceline_waiting_seconds{role,kind}        the longest wait that lasts
    paceline_push_age_updates_total{server,part,age}  pushes by how many updates they
                                               came late
    paceline_trainer_seconds_total{trainer,spent_on}  read, compute, servers, others
    paceline_server_busy_seconds_total{server}
    paceline_up, paceline_over                 the coordinator answers; the job has ended

What only events tell is left out where there are none to be seen.

Pure.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple, final

from paceline.messages.shared import SpentTime
from paceline.messages.watching import JobStatus, ProcessStatus

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MOST_OWN = 200  # trainers with figures of their own; of more, the sum
MOST_NUMBERS = 64  # that scripts log

_BYTES = (  # (end of the counter's name, direction, whether a codec has been there)
    ("value_bytes", "to_trainers", "plain"),
    ("value_bytes_sent", "to_trainers", "sent"),
    ("gradient_bytes", "to_servers", "plain"),
    ("gradient_bytes_sent", "to_servers", "sent"),
)


@final
class Tally:
    """What events count that a status does not tell."""

    def __init__(self) -> None:
        self.lost: Counter[tuple[str, str]] = Counter()  # {(role, kind): how many}
        self.returns = 0
        self.cuts = 0
        self.cut_t: float | None = None  # when the last one was durable

    def add(self, event: dict[str, Any]) -> None:
        """Take note of an event."""
        name = event["event"]
        if name in {"TrainerLost", "ServerLost"}:
            role = "trainer" if name == "TrainerLost" else "server"
            self.lost[role, str(event["kind"])] += 1
        if name in {"ServerLost", "TimelineLeft", "CutSkipped"}:
            self.returns += 1
        if name == "CutCommitted":
            self.cuts += 1
            self.cut_t = float(event["t"])


class Figures(NamedTuple):
    """All that is known of a job; ``waited_s``: {trainer: what others waited for it}."""

    name: str
    status: JobStatus | None
    is_silent: bool
    is_over: bool
    happened: Tally | None  # None: there are no events to be seen
    waited_s: dict[str, float]


def exposition(figures: Figures) -> bytes:
    """The text of a scrape."""
    return _exposed(_Job(figures))


def exposition_of_jobs(jobs: Sequence[Figures]) -> bytes:
    """The text of a scrape of several: each sample with a label ``job_name``.

    Prometheus has a ``job`` of its own. Of trainers the sums: many jobs are no crowd.
    """
    return _exposed(_Jobs(jobs))


def _exposed(collector: "_Job | _Jobs") -> bytes:
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415  (extra)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)


@final
class _Job:
    """What a registry collects from."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator["Metric"]:
        return _families(self._figures, MOST_OWN)


@final
class _Jobs:
    """The same of several jobs; a family is told once, with the samples of all."""

    def __init__(self, jobs: Sequence[Figures]) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator["Metric"]:
        families: dict[str, Metric] = {}
        for figures in self._jobs:
            for family in _families(figures, most_own=0):
                family.samples = [
                    one._replace(labels={"job_name": figures.name} | one.labels)
                    for one in family.samples
                ]
                if (known := families.get(family.name)) is None:
                    families[family.name] = family
                else:
                    known.samples += family.samples
        return iter(families.values())


def _families(figures: Figures, most_own: int) -> Iterator["Metric"]:
    from prometheus_client import core  # noqa: PLC0415  (extra)

    def gauge(name: str, told: str, value: float) -> "Metric":
        return core.GaugeMetricFamily(f"paceline_{name}", told, value=value)

    info = {"version": metadata.version("paceline"), "job": figures.name}
    yield core.InfoMetricFamily(
        "paceline_build", "Which paceline, and which job", value=info
    )
    is_up = figures.status is not None and not figures.is_silent and not figures.is_over
    yield gauge("up", "1 while the coordinator answers", float(is_up))
    yield gauge("over", "1 once the job has ended", float(figures.is_over))
    if figures.happened is not None:
        yield from _of_events(figures.happened, figures.waited_s)
    if figures.status is not None:
        yield from _of_job(figures.status)
        yield from _of_processes(figures.status, most_own)


def _of_events(happened: Tally, waited_s: dict[str, float]) -> Iterator["Metric"]:
    from prometheus_client import core  # noqa: PLC0415  (extra)

    lost = core.CounterMetricFamily(
        "paceline_processes_lost",
        "Processes that were dead to the job",
        labels=("role", "kind"),
    )
    for (role, kind), number in sorted(happened.lost.items()):
        lost.add_metric((role, kind), number)
    yield lost
    told = "Returns of all to a checkpoint"
    yield core.CounterMetricFamily("paceline_returns", told, value=happened.returns)
    told = "Checkpoints that are durable"
    yield core.CounterMetricFamily("paceline_checkpoints", told, value=happened.cuts)
    if happened.cut_t is not None:
        name, told = "paceline_checkpoint_timestamp_seconds", "When the last was durable"
        yield core.GaugeMetricFamily(name, told, value=happened.cut_t)
    waited = core.CounterMetricFamily(
        "paceline_round_waited_seconds",
        "How long rounds waited for a trainer that came last to them",
        labels=("trainer",),
    )
    for trainer, seconds in Counter(waited_s).most_common(MOST_OWN):
        waited.add_metric((trainer,), seconds)
    yield waited


def _of_job(status: JobStatus) -> Iterator["Metric"]:
    from prometheus_client import core  # noqa: PLC0415  (extra)

    state = core.StateSetMetricFamily(
        "paceline_job_state", "How the job stands", {status.state: True}
    )
    yield state
    for name, told, value in (
        ("epoch", "The epoch, from 1", status.epoch),
        ("records_done", "Of the whole job, that count", status.records),
        ("timeline", "Grows with each return", status.timeline),
        ("records_wanted", "Of the whole job; 0: not known", status.total_records),
    ):
        yield core.GaugeMetricFamily(f"paceline_{name}", told, value=float(value))
    told = "Steps of the first part"
    yield core.CounterMetricFamily("paceline_steps", told, value=status.steps)
    tasks = core.GaugeMetricFamily("paceline_tasks", "Of this epoch", labels=("state",))
    for name in ("todo", "pending", "done", "failed"):
        tasks.add_metric((name,), getattr(status.queue, name))
    yield tasks
    yield from _of_counters(by_server(status))
    numbers = core.GaugeMetricFamily(
        "paceline_logged", "Numbers that scripts log", labels=("name",)
    )
    for name, logged in sorted(status.metrics.items())[:MOST_NUMBERS]:
        numbers.add_metric((name,), float("nan") if logged is None else logged)
    yield numbers


def by_server(status: JobStatus) -> dict[str, dict[str, int]]:
    """What servers have counted; under no name what is of none that is there."""
    counters = {one.id: one.counters for one in status.processes if one.counters}
    told = {name for own in counters.values() for name in own}
    rest = {name: n for name, n in status.counters.items() if name not in told}
    return {"": rest, **counters}


def _of_counters(counters: dict[str, dict[str, int]]) -> Iterator["Metric"]:
    """Of servers: ``what``, or ``part-0.what``, or ``part-0.age.2-3``."""
    from prometheus_client import core  # noqa: PLC0415  (extra)

    traffic = core.CounterMetricFamily(
        "paceline_wire_bytes",
        "Numbers on their way, before and after a codec",
        labels=("server", "part", "direction", "stage"),
    )
    ages = core.CounterMetricFamily(
        "paceline_push_age_updates",
        "Pushes that were applied at once, by how many updates they came late",
        labels=("server", "part", "age"),
    )
    pushes = core.CounterMetricFamily(
        "paceline_pushes",
        "Pushes that were not applied as they came, by what became of them",
        labels=("server", "part", "what"),
    )
    for server, own in counters.items():
        for name, number in sorted(own.items()):
            before, dot, after = name.partition(".")
            part, what = (before.removeprefix("part-"), after) if dot else ("", name)
            way = next((way for way in _BYTES if way[0] == what), None)
            if way is not None:
                traffic.add_metric((server, part, *way[1:]), number)
            elif what.startswith("age."):
                ages.add_metric((server, part, what.removeprefix("age.")), number)
            else:
                pushes.add_metric((server, part, what), number)
    yield from (traffic, ages, pushes)


def _of_processes(status: JobStatus, most_own: int) -> Iterator["Metric"]:
    from prometheus_client import core  # noqa: PLC0415  (extra)

    trainers = [one for one in status.processes if one.role == "trainer"]
    records = core.CounterMetricFamily(
        "paceline_records",
        "Records that count, since the coordinator was started, by trainer",
        labels=("trainer",),
    )
    clocks = core.GaugeMetricFamily(
        "paceline_clock_steps", "Steps a trainer has finished", labels=("trainer",)
    )
    shown = trainers if len(trainers) <= most_own else []
    for one in shown:
        records.add_metric((one.id,), one.records)
        clocks.add_metric((one.id,), one.clock)
    if not shown:
        records.add_metric(("all",), sum(one.records for one in trainers))
    yield from (records, clocks)
    yield from _of_times(trainers, most_own)
    yield from _of_servers([one for one in status.processes if one.role == "server"])
    yield from _of_members(status.processes)


def _of_times(trainers: Sequence[ProcessStatus], most_own: int) -> Iterator["Metric"]:
    from prometheus_client import core  # noqa: PLC0415  (extra)

    spent = core.CounterMetricFamily(
        "paceline_trainer_seconds",
        "What a trainer's time went into: read, compute, servers, others",
        labels=("trainer", "spent_on"),
    )
    told = {one.id: one.spent for one in trainers if one.spent is not None}
    if len(told) > most_own:
        told = {"all": SpentTime(*map(sum, zip(*told.values(), strict=True)))}
    for trainer, seconds in told.items():
        for name, number in seconds._asdict().items():
            spent.add_metric((trainer, name), number)
    yield spent


def _of_servers(servers: Sequence[ProcessStatus]) -> Iterator["Metric"]:
    from prometheus_client import core  # noqa: PLC0415  (extra)

    busy = core.CounterMetricFamily(
        "paceline_server_busy_seconds",
        "How long slots were changed or read, summed over those that are so at once",
        labels=("server",),
    )
    longest = core.GaugeMetricFamily(
        "paceline_server_longest_queue",
        "Pushes and pulls that stood at one slot lately, at most",
        labels=("server",),
    )
    for one in servers:
        busy.add_metric((one.id,), sum(slot.busy_s for slot in one.load))
        longest.add_metric((one.id,), max((slot.longest for slot in one.load), default=0))
    yield from (busy, longest)


def _of_members(processes: Sequence[ProcessStatus]) -> Iterator["Metric"]:
    from prometheus_client import core  # noqa: PLC0415  (extra)

    members = core.GaugeMetricFamily(
        "paceline_members", "Processes by role and state", labels=("role", "state")
    )
    for (role, state), number in sorted(
        Counter((one.role, one.state) for one in processes).items()
    ):
        members.add_metric((role, state), number)
    waiting = core.GaugeMetricFamily(
        "paceline_waiting_seconds", "The longest wait that lasts", labels=("role", "kind")
    )
    longest: dict[tuple[str, str], float] = {}
    for one in processes:
        if one.wait is not None:
            key = (one.role, str(one.wait.kind))
            longest[key] = max(longest.get(key, 0.0), one.wait.since_s)
    for labels, seconds in sorted(longest.items()):
        waiting.add_metric(labels, seconds)
    yield from (members, waiting)

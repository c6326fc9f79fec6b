"""What the event log says of an outcome: enough to follow a job, not to replay it.

Left out is what nobody reads line by line, and a list of a thousand becomes its length:
the journal has all of it.

Pure.
"""

import msgspec

from paceline.coordinator.durable.outcomes import Outcome
from paceline.messages.watching import JobStatus, ProcessStatus

_BULKY = frozenset({"queue", "files", "plan", "plans", "instead", "result", "value"})
MOST_LISTED = 64
_LISTS = {tuple, dict}


def told(outcome: Outcome) -> tuple[str, dict[str, object]]:
    """The name of an outcome's line, and its fields."""
    fields = msgspec.structs.asdict(outcome)
    for name in _BULKY.intersection(fields):
        del fields[name]
    for name, value in fields.items():
        if type(value) in _LISTS and len(value) > MOST_LISTED:
            fields[name] = len(value)
    return type(outcome).__name__, fields


def progress_of(status: JobStatus) -> dict[str, object]:
    """The fields of a line that says how far the job is."""
    trainers = [p for p in status.processes if p.role == "trainer"]
    by_trainer = {p.id: p.records for p in trainers}
    return {
        "records": status.records,
        "steps": status.steps,
        "epoch": status.epoch - 1,
        "timeline": status.timeline,
        "trainers": by_trainer,
        "spent": _spent(trainers),
        "trained_s": _trained_s(status),
    }


def _spent(trainers: list[ProcessStatus]) -> dict[str, list[float]]:
    """Seconds by what they went into; of many trainers, of those that wait least."""
    told = {p.id: [round(s, 2) for s in p.spent] for p in trainers if p.spent is not None}
    if len(told) <= MOST_LISTED:
        return told
    least = sorted(told, key=lambda name: told[name][3])[:MOST_LISTED]
    return {name: told[name] for name in least}


def closed_of(status: JobStatus) -> dict[str, object]:
    """The fields of a coordinator's last line."""
    return {
        "records": status.records,
        "trained_s": _trained_s(status),
        "timeline": status.timeline,
        "cut": status.cut,
        "counters": status.counters,
    }


def _trained_s(status: JobStatus) -> float:
    """Seconds that loops have trained, as far as this coordinator knows."""
    return 0.0 if status.trained is None else round(status.trained.seconds, 3)

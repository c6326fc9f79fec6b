"""What the event log says of an outcome: enough to follow a job, not to replay it.

Left out is what nobody reads line by line, and a list of a thousand becomes its length:
the journal has all of it.

Pure.
"""

from paceline.coordinator.outcomes import Outcome
from paceline.messages import JobStatus

_BULKY = frozenset({"queue", "files", "plan", "plans", "instead", "result", "value"})
MOST_LISTED = 64


def told(outcome: Outcome) -> tuple[str, dict[str, object]]:
    """The name of an outcome's line, and its fields."""
    fields = {
        name: _brief(getattr(outcome, name))
        for name in outcome.__struct_fields__
        if name not in _BULKY
    }
    return type(outcome).__name__, fields


def progress_of(status: JobStatus) -> dict[str, object]:
    """The fields of a line that says how far the job is."""
    by_trainer = {p.id: p.records for p in status.processes if p.role == "trainer"}
    return {
        "records": status.records,
        "steps": status.steps,
        "epoch": status.queue.epoch,
        "timeline": status.timeline,
        "trainers": by_trainer,
    }


def _brief(value: object) -> object:
    if isinstance(value, tuple | dict) and len(value) > MOST_LISTED:
        return len(value)
    return value

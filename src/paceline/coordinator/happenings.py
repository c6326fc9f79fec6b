"""What the event log says of an outcome: enough to follow a job, not to replay it.

Left out is what nobody reads line by line, and a list of a thousand becomes its length:
the journal has all of it.

Pure.
"""

from paceline.coordinator.outcomes import Outcome

_BULKY = frozenset({"queue", "files", "plan", "plans", "result", "value"})
MOST_LISTED = 64


def told(outcome: Outcome) -> tuple[str, dict[str, object]]:
    """The name of an outcome's line, and its fields."""
    fields = {
        name: _brief(getattr(outcome, name))
        for name in outcome.__struct_fields__
        if name not in _BULKY
    }
    return type(outcome).__name__, fields


def _brief(value: object) -> object:
    if isinstance(value, tuple | dict) and len(value) > MOST_LISTED:
        return len(value)
    return value

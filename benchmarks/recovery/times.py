"""Recovery times, from the moments of kills, steps and happenings.

All moments are seconds since 1970 on one machine. Pure.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Event = Mapping[str, Any]


def longest_gap(steps: Sequence[float], start: float, stop: float) -> float | None:
    """The longest time between two neighboring steps, one of which ends in the span.

    Args:
        steps: when steps were over, in order.
        start: of the span.
        stop: of the span; a step that ends after it has ended late.

    Returns:
        Seconds; None if no step is over before the span, or none after its start.
    """
    gaps = [
        after - before
        for before, after in itertools.pairwise(steps)
        if after >= start and before <= stop
    ]
    return max(gaps) if gaps and steps[0] < start else None


def stall(
    steps: Mapping[str, Sequence[float]], victim: str, killed: float, watched_s: float
) -> float | None:
    """How long the others stood still: the longest gap of any of them after a kill."""
    gaps = [
        longest_gap(moments, killed, killed + watched_s)
        for trainer, moments in steps.items()
        if trainer != victim
    ]
    known = [gap for gap in gaps if gap is not None]
    return max(known) if known else None


def held_by(events: Iterable[Event], trainer: str, moment: float) -> set[tuple[int, ...]]:
    """Tasks that a trainer had a lease on at a moment."""
    held: dict[tuple[int, ...], str] = {}  # {task: its trainer}
    for event in events:
        if event["t"] > moment:
            break
        if event["event"] == "LeaseGranted":
            held[tuple(event["lease"]["key"])] = event["trainer"]
        elif event["event"] in {"TaskDone", "TaskReturned", "TaskFailed"}:
            held.pop(tuple(event["key"]), None)
    return {key for key, holder in held.items() if holder == trainer}


def leased_again(events: Sequence[Event], trainer: str, killed: float) -> float | None:
    """How long it took until all that a killed trainer worked on was leased again.

    None if it held nothing, or its tasks were complete, so that nobody leases them.
    """
    waiting = held_by(events, trainer, killed)
    last = None
    for event in events:
        if event["t"] > killed and event["event"] == "LeaseGranted":
            key = tuple(event["lease"]["key"])
            if key in waiting:
                waiting.discard(key)
                last = event["t"] - killed
    return last if not waiting else None


def trains_again(
    events: Iterable[Event], steps: Iterable[float], killed: float
) -> float | None:
    """How long it took until a step was over on the timeline that a kill began."""
    restored = [e["t"] for e in events if e["event"] == "MarksRestored" and e["t"] > killed]
    if not restored:
        return None
    after = [moment for moment in steps if moment > restored[0]]
    return min(after) - killed if after else None

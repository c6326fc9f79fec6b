"""Why a panel has nothing to show: what its job folder does not tell, in a sentence.

Said of jobs that do not run any more: in others it may still come. Folders are older than
this paceline, were written by another program, or are looked at from afar.

Pure.
"""

from typing import Any, NamedTuple, final

FAR = (
    "Nothing is seen here of events, which lie on the machine of the job's launcher: "
    "paceline dashboard shows them there."
)
FROM_EVENTS = ("curves", "lanes", "foreseen")
NO_EVENTS = "This folder has no events: events.jsonl is not there, or holds none."

_NEEDED = frozenset({"computed", "StageRegistered"})


@final
class SeenEvents:
    """Which of the events that panels need were there."""

    def __init__(self) -> None:
        """None was."""
        self.lines = self.strange = 0
        self.has: set[str] = set()  # of `_NEEDED`, and "spent"

    def note(self, event: dict[str, Any]) -> None:
        """A line was read."""
        self.lines += 1
        self.has |= _NEEDED & {str(event.get("event"))}
        if event.get("spent"):
            self.has.add("spent")

    def note_strange(self) -> None:
        """It was not understood."""
        self.strange += 1


class ShownPanels(NamedTuple):
    """Which panels have something to show."""

    curves: bool
    lanes: bool
    times: bool
    servers: bool
    foreseen: bool


def lacking(seen: SeenEvents, shown: ShownPanels, *, has_status: bool) -> dict[str, str]:
    """Why panels are empty, each in a sentence, by the name of the panel.

    ``has_status``: the coordinator's last words are known.
    """
    return {
        panel: why
        for panel, is_shown in shown._asdict().items()
        if not is_shown and (why := _why(panel, seen, shown, has_status=has_status))
    }


def _why(panel: str, seen: SeenEvents, shown: ShownPanels, *, has_status: bool) -> str:
    if panel == "servers":
        return _why_no_servers(has_status=has_status)
    if not seen.lines:
        return NO_EVENTS
    if seen.strange == seen.lines:
        return (
            f"None of the {seen.lines:,} lines of events.jsonl is an event that this page "
            "knows: another program wrote them, or another version of paceline."
        )
    if panel == "curves":
        return (
            "There are no numbers over time: events.jsonl has no line 'log', and too "
            "few lines 'progress' for records/s."
        )
    if panel == "lanes":
        return (
            "No line 'TrainerJoined' or 'ServerJoined' in events.jsonl tells who was there."
        )
    if panel == "times":
        return _why_no_times(seen)
    return _why_no_forecast(seen, shown)


def _why_no_servers(*, has_status: bool) -> str:
    if has_status:
        return "The coordinator's last words (status.json) tell nothing of servers' load."
    return (
        "The coordinator's last words (status.json), which tell servers' load, are missing."
    )


def _why_no_times(seen: SeenEvents) -> str:
    if "spent" in seen.has:
        return (
            "The last run ended before trainers had told twice what their time went into."
        )
    return (
        "No line 'progress' in events.jsonl has 'spent', what trainers' time went into: an "
        "older paceline wrote none, and a run that is short has none."
    )


def _why_no_forecast(seen: SeenEvents, shown: ShownPanels) -> str:
    if "computed" not in seen.has:
        return (
            "There is no forecast: no line 'computed' in events.jsonl tells how long "
            "batches took."
        )
    if "StageRegistered" not in seen.has:
        return (
            "There is no forecast: no line 'StageRegistered' in events.jsonl tells the "
            "size of a batch."
        )
    if not shown.times:
        return "There is no forecast, since it is not known what trainers' time went into."
    return ""

"""What a job's events say to a tracker: numbers over records, and what happened, in words.

===========================  =======================================================
name                         from
===========================  =======================================================
as the script says           each number of each `Session.log`
``paceline/records_per_``    between two ``progress`` events, about one a second
``second``
``paceline/epoch``           the same; so are ``paceline/steps`` ``paceline/timeline``
                             (more than before: the job has returned to a cut) and
                             ``paceline/trainers`` (those that have counted records)
===========================  =======================================================

Pure.
"""

import re
from typing import Any, NamedTuple, final

import msgspec

OWN = "paceline/"  # before the names of numbers that no script has logged
RATE = OWN + "records_per_second"

STRANGE = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError)  # of events


_TRAINER = re.compile(r"trainer-\d{1,9}")


class TrackedNumber(NamedTuple):
    """A number of a job."""

    t: float  # seconds since 1970, as the coordinator's clock says
    records: int  # that the job had counted
    name: str
    value: float
    trainer: str = ""  # who logged it; empty: the job as a whole


class Happening(NamedTuple):
    """Something that happened to a job, in words."""

    t: float
    records: int
    text: str


Told = list[TrackedNumber | Happening]  # by one event


class ReaderState(msgspec.Struct):
    """What is known of the events before: enough to go on behind them."""

    records: int = 0
    last: tuple[float, int] | None = None  # of progress: when, how many records
    num_runs: int = 0


@final
class PointReader:
    """Reads a job's events one by one; those before are known by their `ReaderState`."""

    def __init__(self, state: ReaderState | None = None) -> None:
        """Go on behind the events that ``state`` has seen; None: begin."""
        self.state = ReaderState() if state is None else state

    def read(self, event: dict[str, Any]) -> Told:
        """What this event says; nothing, if it is none that is known."""
        try:
            return self._read(event)
        except STRANGE:
            return []

    def _read(self, event: dict[str, Any]) -> Told:
        t, name = float(event["t"]), str(event["event"])
        if name == "log":
            return self._logged(t, event)
        if name == "progress":
            return [*self._stood(t, event), *self._went(t, event)]
        if name == "closed":
            return self._went(t, event)
        if name == "RunBegun":
            self.state.num_runs += 1
            self.state.last = None
        text = _told(name, event, self.state)
        return [Happening(t, self.state.records, text)] if text else []

    def _logged(self, t: float, event: dict[str, Any]) -> Told:
        records, trainer = int(event["records"]), str(event["trainer"])
        if not _TRAINER.fullmatch(trainer):  # it names folders of some tools
            return []
        return [
            TrackedNumber(t, records, str(name), float(value), trainer)
            for name, value in event["numbers"].items()
            if value is not None
        ]

    def _stood(self, t: float, event: dict[str, Any]) -> Told:
        numbers = {
            "epoch": int(event["epoch"]),
            "steps": int(event["steps"]),
            "timeline": int(event["timeline"]),
            "trainers": len(event["trainers"]),
        }
        return [
            TrackedNumber(t, int(event["records"]), OWN + name, float(value))
            for name, value in numbers.items()
        ]

    def _went(self, t: float, event: dict[str, Any]) -> Told:
        records, last = int(event["records"]), self.state.last
        self.state.records, self.state.last = records, (t, records)
        if last is None or t <= last[0]:
            return []
        rate = max(0, records - last[1]) / (t - last[0])
        return [TrackedNumber(t, records, RATE, rate)]


def _told(name: str, event: dict[str, Any], state: ReaderState) -> str:
    """What an event means to the job; empty: nothing that a tracker shows."""
    if name == "RunBegun":
        return "the job is gone on with" if state.num_runs > 1 else "the job begins"
    if name in {"TrainerLost", "ServerLost"}:
        role = event.get("trainer") or event.get("server")
        return f"{role} was lost ({event['kind']}): {event['reason']}"
    if name in {"TrainerJoined", "ServerJoined"}:
        return f"{event.get('trainer') or event.get('server')} has joined"
    if name == "TrainerLeft":
        return f"{event['trainer']} has left"
    if name in {"TimelineLeft", "CutSkipped"}:
        return f"all return to a checkpoint: {event['reason']}"
    if name == "PaceChanged":
        return f"the pace is {', '.join(sorted(set(map(str, event['paces'].values()))))}"
    if name == "Scaled":
        return f"{event['trainers']} trainers are wanted"
    if name == "CutCommitted":
        return f"checkpoint {event['cut']} is durable"
    if name == "EventsLost":
        return f"{event['number']} events could not be written, and are not here"
    return ""

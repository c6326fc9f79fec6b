"""A lane for each role: when it was there, when it died, when it came back.

What happens to the job as a whole (cuts, returns to one, another pace, other numbers of
trainers) are marks of a lane that belongs to nobody.

Pure.
"""

from collections import deque
from typing import Any, NamedTuple, final

MOST_SPANS = 100  # of a lane: what lies before is forgotten, and said
MOST_LANES = 64
MOST_MARKS = 400
MOST_LATEST = 10
UNREAD = "EventsUnread"  # what is told in the place of events that nobody has seen
MOST_CUTS = 400  # marks of checkpoints, which push no other out

_JOINED = {"TrainerJoined": "trainer", "ServerJoined": "server"}
_LOST = {"TrainerLost": "trainer", "ServerLost": "server"}


class Stay(NamedTuple):
    """A role was there from ``begin_s`` on; ``end`` says why it was no longer."""

    begin_s: float
    end_s: float | None = None
    end: str = ""  # "died", "left"; empty: it is there
    why: str = ""


class JobMark(NamedTuple):
    """Something has happened to the job."""

    at_s: float
    kind: str  # "cut", "return", "pace", "scale", "resumed", "coordinator", "lost"
    text: str


@final
class Lanes:
    """All lanes, as the events of a job tell them."""

    def __init__(self) -> None:
        self._marks: deque[JobMark] = deque(maxlen=MOST_MARKS)
        self._cuts: deque[JobMark] = deque(maxlen=MOST_CUTS)
        self._without: dict[str, float] = {}  # {role that has no lane: when it joined}
        self._spans: dict[str, deque[Stay]] = {}
        self._num_runs = 0

    def add(self, at_s: float, event: dict[str, Any]) -> None:
        """Take note of an event, so many seconds after the first.

        Raises:
            KeyError: it lacks what events of its name have.
        """
        name = str(event["event"])
        if name in _JOINED:
            self._begin(str(event[_JOINED[name]]), at_s)
        elif name in _LOST:
            self._lose(str(event[_LOST[name]]), at_s, event)
        elif name == "TrainerLeft":
            self._end(str(event["trainer"]), at_s, "left", "")
        elif name == "RunBegun":
            self._begin_run(at_s, event)
        elif (told := _told(name, event)) is not None:
            mark = JobMark(at_s, *told)
            (self._cuts if mark.kind == "cut" else self._marks).append(mark)

    def close(self, at_s: float) -> None:
        """The job is over: who is there still leaves."""
        for role in self._spans:
            self._end(role, at_s, "left", "")

    @property
    def marks(self) -> list[JobMark]:
        """What happened to the job, in the order of time."""
        return sorted([*self._cuts, *self._marks], key=lambda mark: mark.at_s)

    @property
    def latest(self) -> list[tuple[float, str]]:
        """When and in words what happened last, but checkpoints: the newest first."""
        told = [(mark.at_s, mark.text) for mark in self._marks]
        told += [
            (stay.end_s, f"{role} died ({stay.why})")
            for role, stays in self._spans.items()
            for stay in stays
            if stay.end == "died" and stay.end_s is not None
        ]
        return sorted(told, key=lambda one: -one[0])[:MOST_LATEST]

    @property
    def left_out(self) -> int:
        """So many roles have no lane: trainers that never died, if there are such."""
        return len(self._without)

    def as_list(self) -> list[dict[str, Any]]:
        """All lanes, trainers first."""
        order = sorted(
            self._spans, key=lambda role: (role.startswith("server"), _key(role))
        )
        return [
            {"id": role, "spans": [list(span) for span in self._spans[role]]}
            for role in order
        ]

    def _begin(self, role: str, at_s: float) -> None:
        if role not in self._spans:
            is_server = role.startswith("server")
            if not (self._make_room() if is_server else len(self._spans) < MOST_LANES):
                self._without[role] = at_s
                return
            self._spans[role] = deque(maxlen=MOST_SPANS)
            self._without.pop(role, None)
        self._end(role, at_s, "replaced", "")
        self._spans[role].append(Stay(at_s))

    def _make_room(self) -> bool:
        """Whether there is a lane; a trainer that has never died gives its own away."""
        if len(self._spans) < MOST_LANES:
            return True
        dull = [role for role in self._spans if self._is_dull(role)]
        if not dull:
            return False
        last = max(dull, key=_key)
        self._without[last] = self._spans.pop(last)[-1].begin_s
        return True

    def _is_dull(self, role: str) -> bool:
        is_server = role.startswith("server")
        return not is_server and all(stay.end != "died" for stay in self._spans[role])

    def _lose(self, role: str, at_s: float, event: dict[str, Any]) -> None:
        why = f"{event['kind']}: {event['reason']}"
        if role in self._without and self._make_room():
            begin = Stay(self._without.pop(role))
            self._spans[role] = deque([begin], maxlen=MOST_SPANS)
        self._end(role, at_s, "died", why)
        if role.startswith("server"):
            text = f"{role} was lost: all return to the last checkpoint"
            self._marks.append(JobMark(at_s, "return", text))

    def _end(self, role: str, at_s: float, end: str, why: str) -> None:
        spans = self._spans.get(role)
        if spans and spans[-1].end_s is None:
            spans[-1] = spans[-1]._replace(end_s=at_s, end=end, why=why)

    def _begin_run(self, at_s: float, event: dict[str, Any]) -> None:
        self._num_runs += 1
        if self._num_runs > 1:
            self.close(at_s)
            cut = event.get("cut")
            text = "the job is gone on with"
            if cut is not None:
                text += f" from cut {cut['cut']}"
            self._marks.append(JobMark(at_s, "resumed", text))


def _told(name: str, event: dict[str, Any]) -> tuple[str, str] | None:
    """What an event means to the job: of which kind, and in words."""
    if name == "CutCommitted":
        return "cut", f"checkpoint {event['cut']} is durable"
    if name in {"TimelineLeft", "CutSkipped"}:
        return "return", f"all return to a checkpoint: {event['reason']}"
    if name == "PaceChanged":
        paces = ", ".join(sorted(set(map(str, event["paces"].values()))))
        return "pace", f"the pace is {paces}"
    if name == "Scaled":
        return "scale", f"{event['trainers']} trainers are wanted"
    if name == "CoordinatorReturned":
        return "coordinator", "the coordinator was lost, and has come back"
    if name == "EventsLost":
        return "lost", f"{event['number']} events before this could not be written"
    if name == UNREAD:
        return "lost", "events before this were gone before they were read"
    return None


def _key(role: str) -> tuple[str, int]:
    kind, _, number = role.rpartition("-")
    return kind, int(number) if number.isdigit() else 0

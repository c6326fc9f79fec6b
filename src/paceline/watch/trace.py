"""``events.jsonl`` as a trace that Perfetto and chrome://tracing open.

::

    coordinator   rounds        first arrival to commit; arrows come in from trainers
                  checkpoints   begun to durable
                  happenings    returns, paces, numbers of trainers, resumed
    server-0 ..   life          from joining to death or the end
    trainer-0 ..  life
                  rounds        waiting in a round: from its own arrival to the commit
                  tasks         from lease to done, given up, handed back or abandoned
    job           counters      records, and each number that scripts log

A round tells when each trainer came after the first one, and its line when it was
committed: the last one is taken to have come then, and the others so much before.
Times are microseconds since the first event; the clock is the coordinator's.

Format: the Trace Event Format of Chrome; flows (``s`` and ``f`` of one ``id``) are arrows.

Pure.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, final

TraceEvent = dict[str, Any]  # as JSON has it
STRANGE = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError)  # of events

LIFE, ROUNDS = 0, 1  # threads of trainers, and of servers
COMMITS, CUTS, HAPPENED, COUNTERS = 0, 1, 2, 3  # threads of the coordinator
_TASK_ENDS = frozenset({"TaskDone", "TaskFailed", "TaskReturned"})
_TIMELINES_LEFT = frozenset({"ServerLost", "TimelineLeft", "CutSkipped", "PaceChanged"})
PARTS = 10  # and more: threads of rounds of other parts than the first
_THREADS = {LIFE: "life", ROUNDS: "rounds"}
_OWN_THREADS = {
    COMMITS: "rounds",
    CUTS: "checkpoints",
    HAPPENED: "happenings",
    COUNTERS: "numbers",
}
_COORDINATOR = "coordinator"


class _Task(NamedTuple):
    role: str
    name: str
    token: int


class _Begun(NamedTuple):
    at_us: float
    name: str
    args: dict[str, Any]


@final
class TraceReader:
    """Reads a job's events one by one, in their order; then `end`."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._start_t: float | None = None
        self._at_us = 0.0
        self._pids: dict[str, int] = {}  # {role: its number in the trace}
        self._named_roles: set[str] = set()
        self._threads: set[tuple[int, int]] = set()  # that have a name
        self._open: dict[tuple[str, int, str], _Begun] = {}  # {(role, thread, what)}
        self._tasks: dict[tuple[int, ...], _Task] = {}  # {key: who has it}
        self._num_flows = self._num_runs = 0

    def read(self, event: dict[str, Any]) -> list[TraceEvent]:
        """What an event adds to the trace; nothing, if it is none that is known."""
        try:
            t = float(event["t"])
            if self._start_t is None:
                self._start_t = t
            if event["event"] == "EventsMoved":
                self._start_t = min(self._start_t, float(event["began"]))
            # Clocks may be set back, and a trace may not.
            self._at_us = max(self._at_us, round(1e6 * (t - self._start_t), 1))
            return list(self._read(str(event["event"]), event))
        except STRANGE:
            return []

    def end(self) -> list[TraceEvent]:
        """What is open yet ends with the last event."""
        told = [told for key in list(self._open) for told in self._close(*key, {})]
        return [*told, *self._abandon_tasks({})]

    def _read(self, name: str, event: dict[str, Any]) -> Iterator[TraceEvent]:
        if name in {"TrainerJoined", "ServerJoined"}:
            role = str(event.get("trainer") or event["server"])
            yield from self._close(role, LIFE, "life", {"end": "replaced"})
            told = {"incarnation": event["incarnation"]}
            yield from self._begin(role, LIFE, "life", role, told)
        elif name in {"TrainerLost", "ServerLost", "TrainerLeft"}:
            yield from self._gone(name, event)
        elif name == "RoundCommitted":
            yield from self._round(event)
        elif name == "LeaseGranted":
            lease = event["lease"]
            role, key = str(event["trainer"]), tuple(map(int, lease["key"]))
            task = _Task(role, f"task {key[-1]}", int(lease["token"]))
            yield from self._end_task(key, {"how": "granted again"})
            self._tasks[key] = task
            yield from self._named(role, LIFE)
            yield self._task_edge("b", task, {"key": list(key)})
        elif name in _TASK_ENDS:
            told = {"how": name, "reason": event.get("reason", "")}
            yield from self._end_task(tuple(map(int, event["key"])), told)
        elif name in {"progress", "log"}:
            yield from self._numbers(name, event)
        else:
            yield from self._course(name, event)

        if name in _TIMELINES_LEFT:
            yield from self._abandon(name)

    def _course(self, name: str, event: dict[str, Any]) -> Iterator[TraceEvent]:
        if name == "CutBegun":
            cut = str(event["cut"])
            yield from self._drop_cuts("another began")
            yield from self._begin(_COORDINATOR, CUTS, cut, f"checkpoint {cut}", {})
        elif name in {"CutCommitted", "CutFailed"}:
            told = {"how": name, "reason": event.get("reason", "")}
            yield from self._close(_COORDINATOR, CUTS, str(event["cut"]), told)
        elif name == "RunBegun":
            self._num_runs += 1
            if self._num_runs > 1:
                yield from self.end()
                yield from self._instant(_COORDINATOR, HAPPENED, "gone on with", {}, "g")
        elif name in {"TimelineLeft", "CutSkipped"}:
            told = {"reason": event["reason"]}
            text = "all return to a checkpoint"
            yield from self._instant(_COORDINATOR, HAPPENED, text, told, "g")
        elif name == "PaceChanged":
            text = f"pace {', '.join(sorted(set(map(str, event['paces'].values()))))}"
            yield from self._instant(_COORDINATOR, HAPPENED, text, {}, "g")
        elif name == "Scaled":
            text = f"{event['trainers']} trainers are wanted"
            yield from self._instant(_COORDINATOR, HAPPENED, text, {}, "g")

    def _gone(self, name: str, event: dict[str, Any]) -> Iterator[TraceEvent]:
        role = str(event.get("trainer") or event["server"])
        how = {"end": "left" if name == "TrainerLeft" else "lost"}
        if name != "TrainerLeft":
            how |= {"kind": str(event["kind"]), "reason": str(event["reason"])}
            yield from self._instant(role, LIFE, f"{role} is lost", how, "p")
        yield from self._close(role, LIFE, "life", how)
        for key in [key for key, task in self._tasks.items() if task.role == role]:
            yield from self._end_task(key, how)

    def _abandon(self, name: str) -> Iterator[TraceEvent]:
        """A timeline is left: what was open on it is void."""
        yield from self._drop_cuts(name)
        yield from self._abandon_tasks({"how": name})

    def _drop_cuts(self, why: str) -> Iterator[TraceEvent]:
        for key in [key for key in self._open if key[:2] == (_COORDINATOR, CUTS)]:
            yield from self._close(*key, {"how": "dropped", "reason": why})

    def _abandon_tasks(self, args: dict[str, Any]) -> Iterator[TraceEvent]:
        for key in list(self._tasks):
            yield from self._end_task(key, args)

    def _end_task(self, key: tuple[int, ...], args: dict[str, Any]) -> Iterator[TraceEvent]:
        if (task := self._tasks.pop(key, None)) is not None:
            yield self._task_edge("e", task, args)

    def _round(self, event: dict[str, Any]) -> Iterator[TraceEvent]:
        """The round, who waited in it, and an arrow from each to its commit."""
        names = [str(one["trainer"]) for one in event["contributions"]]
        came_s = list(map(float, event["came_s"]))
        if not names:
            return
        part, number = int(event["part"]), int(event["round"])
        text = f"round {number}" + (f" of part {part}" if part else "")
        lasted_us = 1e6 * (max(came_s) - min(came_s))
        told = {"part": part, "records": event["records"], "trainers": len(names)}
        begun = _Begun(round(self._at_us - lasted_us, 1), text, told)
        own, waits = (COMMITS, ROUNDS) if not part else (PARTS + part, PARTS + part)
        yield from self._slice(_COORDINATOR, own, begun, {})
        for name, late_s in zip(names, came_s, strict=True):
            came_us = round(self._at_us - 1e6 * (max(came_s) - late_s), 1)
            waiting = _Begun(came_us, text, {"came_s": late_s})
            yield from self._slice(name, waits, waiting, {})
            self._num_flows += 1
            flow = {"name": "push", "cat": "round", "id": self._num_flows}
            yield {**flow, "ph": "s", **self._where(name, waits), "ts": came_us}
            there = self._where(_COORDINATOR, own)
            yield {**flow, "ph": "f", "bp": "e", **there, "ts": self._at_us}

    def _task_edge(self, phase: str, task: _Task, args: dict[str, Any]) -> TraceEvent:
        """A task begins or ends; several of one trainer may be open, so each has a row."""
        what = {"ph": phase, "cat": "task", "name": task.name, "id": task.token}
        return {**what, **self._where(task.role, LIFE), "ts": self._at_us, "args": args}

    def _numbers(self, name: str, event: dict[str, Any]) -> Iterator[TraceEvent]:
        numbers = event["numbers"] if name == "log" else {"records": event["records"]}
        where = self._where(_COORDINATOR, COUNTERS)
        for metric, value in numbers.items():
            if value is not None:
                at = {**where, "ts": self._at_us}
                yield {"ph": "C", "name": str(metric), **at, "args": {"value": value}}

    def _begin(
        self, role: str, thread: int, what: str, name: str, args: dict[str, Any]
    ) -> Iterator[TraceEvent]:
        yield from self._named(role, thread)
        self._open[role, thread, what] = _Begun(self._at_us, name, args)

    def _close(
        self, role: str, thread: int, what: str, args: dict[str, Any]
    ) -> Iterator[TraceEvent]:
        begun = self._open.pop((role, thread, what), None)
        if begun is not None:
            yield from self._slice(role, thread, begun, args)

    def _slice(
        self, role: str, thread: int, begun: _Begun, args: dict[str, Any]
    ) -> Iterator[TraceEvent]:
        yield from self._named(role, thread)
        begun_us = max(0.0, begun.at_us)
        at = {"ts": begun_us, "dur": round(self._at_us - begun_us, 1)}
        where = self._where(role, thread)
        yield {"ph": "X", "name": begun.name, **where, **at, "args": begun.args | args}

    def _instant(
        self, role: str, thread: int, name: str, args: dict[str, Any], scope: str
    ) -> Iterator[TraceEvent]:
        yield from self._named(role, thread)
        where = {**self._where(role, thread), "ts": self._at_us}
        yield {"ph": "i", "s": scope, "name": name, **where, "args": args}

    def _where(self, role: str, thread: int) -> dict[str, int]:
        return {"pid": self._pids.setdefault(role, len(self._pids) + 1), "tid": thread}

    def _named(self, role: str, thread: int) -> Iterator[TraceEvent]:
        """Names of a role and of a thread of it, before the first thing that it has."""
        where = self._where(role, thread)
        if role not in self._named_roles:
            self._named_roles.add(role)
            order = {_COORDINATOR: 0}.get(role, 1 if role.startswith("server") else 2)
            yield _meta("process_name", where, {"name": role})
            yield _meta("process_sort_index", where, {"sort_index": order})
        if (where["pid"], thread) not in self._threads:
            self._threads.add((where["pid"], thread))
            names = _OWN_THREADS if role == _COORDINATOR else _THREADS
            name = names.get(thread, f"rounds of part {thread - PARTS}")
            yield _meta("thread_name", where, {"name": name})


def _meta(name: str, where: dict[str, int], args: dict[str, Any]) -> TraceEvent:
    return {"ph": "M", "name": name, **where, "ts": 0, "args": args}

"""What a dashboard shows of a job: from its events, and from how it says it stands.

::

    events    lanes, numbers over time: they are there when the job is not any more
    status    the head, roles, the queue, clocks, who is waited for

A picture is plain JSON. Pages know the points of curves already, and are sent what is new.

Pure: time is an argument.
"""

import statistics
from collections.abc import Sequence
from typing import Any, final

from paceline.config import SSP, parse_pace
from paceline.dashboard.foreseen import MeasuredJob, Past
from paceline.dashboard.lacking import FAR, FROM_EVENTS, SeenEvents, ShownPanels, lacking
from paceline.dashboard.lanes import Lanes
from paceline.dashboard.loads import Loads, WholeRun, hosts_of
from paceline.dashboard.metrics import Figures, Tally
from paceline.dashboard.rounds import LastRounds
from paceline.dashboard.series import Series
from paceline.errors import UsageError
from paceline.messages.waits import named
from paceline.messages.watching import JobStatus, ProcessStatus
from paceline.watch.pulse import Growth, Rate, waited_for, worked_off

MOST_ROLES = 24  # in the table; of more, those that are waited for, wait, or are slow
MOST_CURVES = 16  # numbers that scripts log
MOST_METRICS = 6  # of them, in the head
RATE = "records/s"  # has a curve beside them
RATE_OVER_S = 4.0
SMOOTHED_S = 0.25  # numbers that are logged within are one point
MOST_OWN = 12  # trainers that have curves of their own
QUIET_S = 60.0  # without an event, of a job that nobody has heard of: it does not run

Facts = dict[str, Any]


@final
class Picture:
    """A job as it is known; fed by an observer, one thread at a time."""

    def __init__(self, name: str, *, has_events: bool = True) -> None:
        """Nothing is known yet; ``name`` is what users call the job.

        ``has_events``: they can be seen from here.
        """
        self._name, self._has_events = name, has_events
        self._lanes, self._rounds = Lanes(), LastRounds()
        self._tally = Tally()
        self._curves: dict[str, Series] = {}  # {name: points}
        self._rate, self._loads, self._run = Rate(), Loads(), WholeRun()
        self._past, self._seen = Past(), SeenEvents()
        self._foreseen: Facts = {}
        self._start_t: float | None = None
        self._at_s = 0.0  # of the last event
        self._now_s = 0.0  # of the last look, or event
        self._cut_s: float | None = None
        self._progress = Growth(RATE_OVER_S, RATE_OVER_S * 2)
        self._first_wall_t: float | None = None  # of a look
        self._status: JobStatus | None = None
        self._heard_s: float | None = None  # by the observer's clock; at first: since when
        self._unheard = ""  # why no status came since
        self._unread = ""  # why no events come
        self._ended: dict[str, Any] | None = None

    def note_event(self, event: Facts) -> None:
        """Take note of a line of ``events.jsonl``.

        Raises:
            ArithmeticError, AttributeError, KeyError, TypeError, ValueError: it is none
                that is known.
        """
        self._seen.note(event)
        t, name = float(event["t"]), str(event["event"])
        if self._start_t is None:
            self._start_t = t
        if name == "EventsMoved":
            self._start_t = float(event["began"])
        self._at_s = max(self._at_s, t - self._start_t)  # clocks may be set back
        self._lanes.add(self._at_s, event)
        self._tally.add(event)
        self._past.note(event)
        if name == "progress":
            self._note_progress(event)
            self._run.note(event.get("spent", {}), self._at_s)
        elif name == "log":
            for metric, value in event["numbers"].items():
                if value is not None:
                    self._curve(str(metric), float(value), SMOOTHED_S)
        elif name == "RoundCommitted":
            self._rounds.add(self._at_s, event)
        elif name == "ServerJoined":
            self._run.note_joined(str(event["server"]), self._at_s)
        else:
            self._note_course(name)

    def note_strange(self) -> None:
        """The last event was none that is known."""
        self._seen.note_strange()

    def note_status(self, status: JobStatus, now_s: float) -> None:
        """Take note of how the job stands."""
        self._status, self._heard_s, self._unheard = status, now_s, ""
        self._rate.note(status, now_s)
        self._loads.note(status.processes, now_s)

    def note_unheard(self, why: str) -> None:
        """A question was in vain; that is told until a status comes."""
        self._unheard = why

    def note_unread(self, why: str) -> None:
        """Events cannot be read; empty: they can."""
        self._unread = why

    def note_end(self, summary: Facts, status: JobStatus | None) -> None:
        """The job is over: how it ended, and how it stood then, if that is known."""
        self._ended = summary
        self._now_s = self._at_s
        self._lanes.close(self._at_s)
        if status is not None:
            self._status = status

    def note_begun_again(self) -> None:
        """A job that was over is resumed: how it stands is yet to be heard."""
        if self._ended is not None:
            self._ended = self._status = self._heard_s = None
            self._progress = Growth(RATE_OVER_S, RATE_OVER_S * 2)
            self._unheard, self._rate, self._loads = "", Rate(), Loads()
            self._foreseen = {}

    def note_foreseen(self, told: Facts) -> None:
        """A forecast of this job was made; see `foresee`."""
        self._foreseen = told

    def measured(self) -> MeasuredJob | None:
        """What a forecast of this job starts from; None: too little is known."""
        status, ended = self._status, self._ended
        if status is None:
            return None
        if ended is None:
            trainers = [p.id for p in status.processes if p.role == "trainer" and p.spent]
            times, rate = self._loads.times(status.processes), self._rate.per_second()
        else:
            trainers, times = self._run.trainers, self._run.times()
            rate = float(ended.get("records_per_second") or 0.0)
        servers = self._servers(status.processes)
        if "mean" not in times or rate <= 0:
            return None
        read, compute, *waits = times["mean"]
        pushed_per_s = sum(one["in_per_s"] for one in servers)
        return MeasuredJob(
            pace=status.pace,
            trainers=len(trainers),
            servers=len(servers),
            batch_size=self._past.batch_size,
            pushed_bytes=round(pushed_per_s * self._past.batch_size / rate),
            rate=rate,
            shares=(read + compute, waits[0], waits[1]),
            computed=self._past.computed(trainers),
        )

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, and was not resumed."""
        return self._ended is not None

    def now(
        self, now_s: float, *, is_silent: bool = False, wall_t: float | None = None
    ) -> Facts:
        """All but the curves; ``is_silent``: an answer is overdue.

        ``wall_t``, in seconds since 1970, lets the time line of a job that was heard of go
        on while nothing happens; one that is over, or was never heard of, ends with its
        last event.
        """
        status, is_over = self._status, self._ended is not None
        lives = status is not None and not is_over
        if wall_t is not None and self._start_t is not None and lives:
            self._now_s = max(self._now_s, wall_t - self._start_t)
        if self._heard_s is None:
            self._heard_s = now_s
        processes = () if status is None or self._ended else status.processes
        times = self._run.times() if is_over else self._loads.times(processes)
        servers, lanes = self._servers(processes), self._lanes.as_list()
        shown = ShownPanels(
            bool(self._curves),
            bool(lanes),
            bool(times["of"]),
            bool(servers),
            bool(self._foreseen),
        )
        return {
            "head": self._head(now_s - self._heard_s if is_silent else None),
            "queue": None if status is None else _queue(status),
            "waits": _waits(processes),
            "rounds": self._rounds.as_list(),
            "straggler": None if self._ended else self._straggler(),
            "roles": _roles(processes),
            "times": times,
            "servers": servers,
            "hosts": hosts_of(processes),
            "foreseen": self._foreseen,
            "lacking": self._lacking(shown, wall_t),
            "more_roles": max(0, len(processes) - MOST_ROLES),
            "clocks": _clocks(processes, "" if status is None else status.pace),
            "lanes": lanes,
            "lanes_left_out": self._lanes.left_out,
            "marks": [list(mark) for mark in self._lanes.marks],
            "latest": self._lanes.latest,
            "at_s": round(max(self._at_s, self._now_s), 2),
        }

    def curves(self, known: dict[str, tuple[int, int]]) -> dict[str, Any]:
        """Points that are new to who knows so many of each: {name: (halvings, number)}."""
        told = {}
        for name, series in self._curves.items():
            if self._ended is not None:
                series.complete()
            points = series.since(*known.get(name, (0, 0)))
            if points.seconds or name not in known:
                told[name] = list(points)
                known[name] = (points.halvings, points.first + len(points.seconds))
        return told

    def figures(self, *, is_silent: bool = False) -> Figures:
        """What programs read; ``is_silent``: an answer is overdue."""
        tally = self._tally if self._has_events else None
        waited_s = dict(self._rounds.lost_s)
        return Figures(self._name, self._status, is_silent, self.is_over, tally, waited_s)

    def _servers(self, processes: Sequence[ProcessStatus]) -> list[Facts]:
        if self._ended is None or self._status is None:
            return self._loads.servers(processes)
        return self._run.servers(self._status.processes, self._at_s)

    def _lacking(self, shown: ShownPanels, wall_t: float | None) -> dict[str, str]:
        """Why panels are empty, unless it may still come."""
        if not self._has_events:
            return {panel: FAR for panel in FROM_EVENTS if not getattr(shown, panel)}
        is_still = self._ended is not None
        if self._first_wall_t is None:
            self._first_wall_t = wall_t
        if self._status is None and self._unheard and wall_t is not None:
            last_t = self._first_wall_t  # without an event: it may be about to begin
            if self._start_t is not None:
                last_t = self._start_t + self._at_s
            is_still |= last_t is not None and wall_t - last_t > QUIET_S
        has_status = self._status is not None
        return lacking(self._seen, shown, has_status=has_status) if is_still else {}

    def _straggler(self) -> Facts | None:
        """With whether the pace waits for it: one with backups does not."""
        told = self._rounds.straggler(max(self._at_s, self._now_s))
        pace = "" if self._status is None else self._status.pace
        return None if told is None else told | {"has_backup": "backup=" in pace}

    def _note_course(self, name: str) -> None:
        if name == "CutCommitted":
            self._cut_s = self._at_s
        elif name == "PaceChanged":
            self._rounds.clear()
        elif name == "RunBegun":
            self._rounds.clear()
            self._run = WholeRun(self._at_s)
            self.note_begun_again()
        elif name == "closed":
            self._lanes.close(self._at_s)

    def _note_progress(self, event: Facts) -> None:
        rate = self._progress.add(self._at_s, int(event["records"]))
        if rate is not None:
            self._curve(RATE, rate)

    def _curve(self, name: str, value: float, smoothed_s: float = 0.0) -> None:
        series = self._curves.get(name)
        if series is None:
            if name != RATE and len(self._curves.keys() - {RATE}) >= MOST_CURVES:
                return
            series = self._curves[name] = Series(smoothed_s)
        series.add(self._at_s, value)

    def _head(self, silent_s: float | None) -> Facts:
        status, ended = self._status, self._ended
        head: Facts = {"name": self._name, "state": "not heard of", "silent_s": None}
        if status is not None:
            done, total = worked_off(status)
            rate = self._rate.per_second()
            is_known = total > 0 and rate > 0 and ended is None
            head |= {
                "state": status.state,
                "kind": status.kind,
                "pace": status.pace,
                "changing": status.changing,
                "trouble": None if status.trouble is None else status.trouble.text,
                "no_room": status.no_room,
                "epoch": status.epoch,
                "records": done,
                "total": total,
                "rate": round(rate, 1),
                "left_s": round((total - done) / rate) if is_known else None,
                "metrics": dict(list(status.metrics.items())[:MOST_METRICS]),
                "timeline": status.timeline,
                "cut": status.cut,
            }
        if silent_s is not None:
            head["silent_s"] = round(silent_s, 1)
        if self._unheard or self._unread:
            head["trouble"] = self._unheard or self._unread
        if self._cut_s is not None:
            head["cut_age_s"] = round(max(self._at_s, self._now_s) - self._cut_s)
        if ended is not None:
            head |= {
                "state": ended.get("status", "ended"),
                "reason": ended.get("reason", ""),
                "rate": ended.get("records_per_second"),
                "seconds": ended.get("seconds"),
                "silent_s": None,
                "trouble": self._unread or None,
                "is_over": True,
            }
        return head


def _queue(status: JobStatus) -> Facts:
    queue = status.queue
    return {name: getattr(queue, name) for name in ("todo", "pending", "done", "failed")}


def _waits(processes: Sequence[ProcessStatus]) -> list[Facts]:
    return [
        {
            "whom": role,
            "by": named(by),
            "kind": longest.kind,
            "reason": longest.reason,
            "since_s": round(longest.since_s, 1),
        }
        for role, by, longest in waited_for(processes)
    ]


def _roles(processes: Sequence[ProcessStatus]) -> list[Facts]:
    """Those that tell most, in the order of the status."""
    whom = {role for role, _, _ in waited_for(processes)}
    slow = min((p.clock for p in processes if p.role == "trainer"), default=0)
    weight = {p.id: _weight(p, whom, slow) for p in processes}
    chosen = sorted(processes, key=lambda p: -weight[p.id])[:MOST_ROLES]
    kept = {p.id for p in chosen}
    return [
        {
            **{name: getattr(p, name) for name in ("id", "role", "host", "pid", "state")},
            **{name: getattr(p, name) for name in ("incarnation", "clock", "records")},
            "is_waited_for": p.id in whom,
            "wait": None
            if p.wait is None
            else {
                "kind": p.wait.kind,
                "whom": p.wait.named(),
                "reason": p.wait.reason,
                "since_s": round(p.wait.since_s, 1),
            },
        }
        for p in processes
        if p.id in kept
    ]


def _weight(process: ProcessStatus, whom: set[str], slowest: int) -> float:
    if process.id in whom:
        return 4.0
    if process.role != "trainer":
        return 3.0
    if process.state not in {"running", "waiting"}:
        return 2.0
    return 1.0 if process.clock == slowest else 0.0


def _clocks(processes: Sequence[ProcessStatus], pace: str) -> Facts:
    """Where trainers are, by name or as a band, and how far one may be ahead."""
    clocks = {p.id: p.clock for p in processes if p.role == "trainer" and p.clock}
    bound = None
    try:
        spec = parse_pace(pace)
        bound = spec.staleness if isinstance(spec, SSP) else None
    except UsageError:  # that of several parts, or one that was never said
        pass
    if len(clocks) <= MOST_OWN:
        return {"of": clocks, "bound": bound}
    values = sorted(clocks.values())
    cuts = statistics.quantiles(values, n=4)
    return {"band": [values[0], *cuts, values[-1]], "number": len(values), "bound": bound}

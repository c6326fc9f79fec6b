"""The jobs of a folder, those that run first: how each stands, and which are looked at.

::

    a thread looks     finds the folders that hold a job, reads what those say that do not
                       run (again only if a file has changed), and makes a beat of it
    a thread a question   asks one that runs; who does not answer holds up nobody else
    looked at          a job whose page is open has an observer, until nobody has looked
                       for a while

Waits: the threads, for the file system and for coordinators (with a bound).
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, final

import msgspec

from paceline.dashboard.door import VisitError
from paceline.dashboard.listing.folders import FileMarks, find_jobs, marks_of, read_job
from paceline.dashboard.metrics import Figures, exposition_of_jobs
from paceline.dashboard.observer import CLOSE_S, SILENT_S, Observer, ask_status
from paceline.launch.job import JobDir
from paceline.messages.watching import JobStatus
from paceline.timing import Clock, Repeating, wall_time_s
from paceline.watch.pulse import Rate
from paceline.watch.row import JobRow, running_row

MOST_LOOKED_AT = 16
LOOK_EVERY_S = 1.0
ASK_EVERY_S = 5.0
FIRST_S = 1.0  # from the first answer to the second question: then there is a rate
FIND_SHARE = 4  # a folder that takes long to go through is gone through less often
LEFT_S = 120.0  # without anybody who looks, or scrapes, an observer is closed


class JobsBeat(NamedTuple):
    """The list as JSON: the same object until it changes; ``t``: now, since 1970."""

    t: float
    told: bytes


@final
class LookedAt:
    """A job whose page is open, or was a moment ago."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.visits = 0  # that are under way
        self.left_s = 0.0  # when the last one ended
        self.app: Any = None  # what answers them


@final
class _Job:
    """What is known of one; all but its files guarded by the lock of `Jobs`."""

    def __init__(self, folder: Path) -> None:
        self.dir = JobDir(folder)
        self.marks = FileMarks()  # when they were read
        self.row = JobRow(folder.name, "", "unread", 0.0)  # as its files tell
        self.rate = Rate()
        self.status: JobStatus | None = None
        self.heard = 0  # answers
        self.unheard = ""  # why there was none
        self.asked_s: float | None = None  # since when one is waited for
        self.due_s = 0.0  # when the next question is
        self.is_asked = False  # one is under way
        self.has_run = False  # since it is looked for
        self.is_plain = False  # all files are files


@final
class Jobs:
    """The jobs of a folder that is looked through."""

    def __init__(
        self,
        root: Path,
        clock: Clock,
        wall_time_s: Callable[[], float] = wall_time_s,
    ) -> None:
        """Nothing is read yet; ``wall_time_s`` is the clock that files are written by."""
        self.root = root.absolute()
        self._clock, self._wall_time_s = clock, wall_time_s
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}  # {name: what is known}, never changed
        self._looked_at: dict[str, LookedAt] = {}  # {name: whose page is open}
        self._left_out, self._trouble = 0, ""
        self._find_s = 0.0  # when folders are looked for again
        self._beat = JobsBeat(0.0, b"null")
        self._looking = Repeating("paceline-listing", LOOK_EVERY_S, self.look)

    def start(self) -> None:
        """Look at once, and from now on."""
        self.look()
        self._looking.start()

    def close(self) -> None:
        """Look no more, at none of them."""
        self._looking.stop(CLOSE_S)
        with self._lock:
            left = list(self._looked_at.values())
            self._looked_at.clear()
        for thread in [_closing(one.observer) for one in left]:
            thread.join()

    @property
    def beat(self) -> JobsBeat:
        """The last one."""
        return self._beat

    def enter(self, name: str) -> LookedAt:
        """Somebody looks at a job, until he is said to `leave`.

        Raises:
            VisitError: this folder lists no such job, or too many are looked at.
        """
        with self._lock:
            if name not in self._jobs:
                raise VisitError(404, "no job of this name is in the list")
            if not self._jobs[name].is_plain:
                raise VisitError(403, self._jobs[name].row.note)
            if name not in self._looked_at:
                self._make_room()
                observer = Observer(self._jobs[name].dir, name, self._clock)
                self._looked_at[name] = LookedAt(observer)
                observer.start()
            self._looked_at[name].visits += 1
            return self._looked_at[name]

    def leave(self, visited: LookedAt) -> None:
        """A visit has ended."""
        with self._lock:
            visited.visits -= 1
            visited.left_s = self._clock.now_s()

    def metrics(self) -> bytes:
        """What Prometheus reads: of all jobs that ran while they were looked for."""
        with self._lock:
            told = [
                Figures(
                    name,
                    one.status if one.row.kind == "runs" else None,
                    self._silent_s(one) is not None,
                    one.row.kind == "ended",
                    None,
                    {},
                )
                for name, one in self._jobs.items()
                if one.has_run
            ]
        return exposition_of_jobs(told)

    def look(self) -> None:
        """Look through the folder, ask who is due, make a beat: what the thread does."""
        now_s = self._clock.now_s()
        if now_s >= self._find_s:
            self._find()
            took_s = self._clock.now_s() - now_s
            self._find_s = now_s + max(LOOK_EVERY_S, FIND_SHARE * took_s)
        for one in self._jobs.values():
            self._read(one)
            self._ask_if_due(one)
        self._close_left()
        with self._lock:
            rows = [self._shown(one) for one in self._jobs.values()]
        rows.sort(key=lambda row: (row.kind != "runs", -row.begun_t, row.name))
        told = msgspec.json.encode(
            {
                "folder": self.root.name or str(self.root),
                "rows": rows,
                "left_out": self._left_out,
                "trouble": self._trouble,
            }
        )
        kept = self._beat.told
        self._beat = JobsBeat(self._wall_time_s(), kept if told == kept else told)

    def _find(self) -> None:
        """The newest ones, and all that run."""
        try:
            names, self._left_out = find_jobs(self.root)
            self._trouble = ""
        except OSError as error:
            names, self._left_out = [], 0
            self._trouble = f"{self.root} cannot be read: {error.strerror}"
        jobs = {name: self._jobs.get(name) or _Job(self.root / name) for name in names}
        with self._lock:
            self._jobs = jobs

    def _read(self, one: _Job) -> None:
        """What its files tell, if one of them has changed; and whether it runs still."""
        marks = marks_of(one.dir)
        if marks == one.marks and one.row.kind != "runs":
            return
        row, is_plain = read_job(one.dir, marks, self._wall_time_s())
        with self._lock:
            if marks.config != one.marks.config:  # it is resumed
                one.rate, one.status, one.heard = Rate(), None, 0
                one.asked_s, one.unheard, one.due_s = None, "", 0.0
            one.row, one.marks, one.is_plain = row, marks, is_plain
            one.has_run |= row.kind == "runs"

    def _ask_if_due(self, one: _Job) -> None:
        is_there = one.row.kind == "runs" and one.marks.run is not None
        if not is_there or one.is_asked or self._clock.now_s() < one.due_s:
            return
        one.is_asked = True
        if one.asked_s is None:
            one.asked_s = self._clock.now_s()
        threading.Thread(
            target=self._ask, args=(one,), name="paceline-asking", daemon=True
        ).start()

    def _ask(self, one: _Job) -> None:
        status, told = None, ""
        try:
            status = ask_status(one.dir, self._clock)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is told)
            told = str(error)
        now_s = self._clock.now_s()
        with self._lock:
            one.unheard = told
            if status is not None:
                one.status, one.asked_s, one.heard = status, None, one.heard + 1
                one.rate.note(status, now_s)
            one.due_s = now_s + (FIRST_S if one.heard == 1 else ASK_EVERY_S)
            one.is_asked = False

    def _silent_s(self, one: _Job) -> float | None:
        if one.asked_s is None:
            return None
        silent_s = self._clock.now_s() - one.asked_s
        return silent_s if silent_s > SILENT_S else None

    def _shown(self, one: _Job) -> JobRow:
        row = one.row
        if row.kind != "runs":
            return row
        if one.status is not None:
            rate = one.rate.per_second() if one.heard > 1 else None
            row = running_row(row, one.status, rate)
        if (silent_s := self._silent_s(one)) is not None:
            row = msgspec.structs.replace(row, silent_s=int(silent_s), note=one.unheard)
        return row

    def _make_room(self) -> None:
        if len(self._looked_at) < MOST_LOOKED_AT:
            return
        left = [name for name, one in self._looked_at.items() if not one.visits]
        if not left:
            told = f"{MOST_LOOKED_AT} jobs are looked at, the most: close the page of one"
            raise VisitError(503, told)
        oldest = min(left, key=lambda name: self._looked_at[name].left_s)
        _closing(self._looked_at.pop(oldest).observer)

    def _close_left(self) -> None:
        now_s = self._clock.now_s()
        with self._lock:
            for name, one in list(self._looked_at.items()):
                if not one.visits and now_s - one.left_s > LEFT_S:
                    _closing(self._looked_at.pop(name).observer)


def _closing(observer: Observer) -> threading.Thread:
    thread = threading.Thread(target=observer.close, name="paceline-closing", daemon=True)
    thread.start()
    return thread

"""Looks at a job once a second: its coordinator, its events, and how it has ended.

::

    a thread asks    how does the job stand; it may wait for an answer
    a thread tells   reads the events, and makes a beat: the picture as JSON, for all pages
    a thread foresees  forecasts the job now and then, while somebody looks

The coordinator hears one question a second, however many pages are open.

Waits: threads of its own, for the coordinator (with a bound), and for the file system.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, final

import msgspec

from paceline.dashboard.asks import JobAsks
from paceline.dashboard.foreseen import ForecastTurns, foresee
from paceline.dashboard.lanes import UNREAD
from paceline.dashboard.metrics import exposition
from paceline.dashboard.picture import Picture
from paceline.errors import PacelineError, UsageError, describe_error
from paceline.launch.job import (
    OBSERVER,
    JobDir,
    JobDoor,
    Wires,
    call_running,
    pace_command,
    running_job,
    shown_name,
)
from paceline.messages.shared import Refusal
from paceline.messages.watching import AskStatus, JobStatus
from paceline.timing import Clock, wall_time_s
from paceline.watch.tail import Tail

EVERY_S = 1.0
LOOK_EVERY_S = 0.2
SILENT_S = 0.5  # an answer takes milliseconds
CLOSE_S = 6.0  # longer than an answer is waited for

STRANGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # of events

Known = dict[str, tuple[int, int]]  # how much of which curve


class PageBeat(NamedTuple):
    """The picture without curves as JSON, and the how-manieth it is."""

    number: int
    now: bytes


@final
class Observer:
    """A job that is looked at."""

    def __init__(
        self,
        job: JobDir | JobDoor,
        name: str,
        clock: Clock,
        wall_time_s: Callable[[], float] = wall_time_s,
    ) -> None:
        """Nothing is asked yet; ``wall_time_s`` is the clock that events are written by."""
        self._job, self._clock, self._wall_time_s = job, clock, wall_time_s
        self.asks = JobAsks(job, clock)
        has_events = isinstance(job, JobDir)
        self._picture = Picture(name, has_events=has_events)  # guarded by the lock
        self._turns = ForecastTurns()  # guarded by it, too
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._summary: dict[str, object] | None = None  # that was told last
        self._asked_s: float | None = None  # since when an answer is waited for
        self._has_asked, self._has_told = threading.Event(), threading.Event()
        self._told_s, self._is_silent = 0.0, False  # of the last beat
        self._tail = Tail(job.events) if isinstance(job, JobDir) else None
        self._beat = PageBeat(0, b"{}")
        self._threads = [
            threading.Thread(target=run, name=f"paceline-{name}", daemon=True)
            for run, name in (
                *((self._ask, "asking"), (self._tell, "telling")),
                (self._foresee, "foreseeing"),
            )
        ]

    def start(self) -> None:
        """Look from now on."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(CLOSE_S)
        if self._tail is not None:
            self._tail.close()

    @property
    def beat(self) -> PageBeat:
        """The last one."""
        return self._beat

    def curves(self, known: Known) -> dict[str, Any]:
        """Points that are new to a page, which knows so many; it knows them from now on.

        Who asks looks at the job: forecasts are made for him.
        """
        with self._lock:
            self._turns.note_look(self._clock.now_s())
            return self._picture.curves(known)

    def metrics(self) -> bytes:
        """What Prometheus reads; who has just begun to look waits for a first answer."""
        if any(thread.is_alive() for thread in self._threads):
            self._has_asked.wait(CLOSE_S)
            self._has_told.wait(CLOSE_S)
        with self._lock:
            return exposition(self._picture.figures(is_silent=self._is_silent))

    def look(self) -> None:
        """Read what has been written, and make a beat of it: what the thread does."""
        self._read()
        self._told_s, self._is_silent = self._clock.now_s(), self._seems_silent()
        with self._lock:
            now = self._picture.now(
                self._told_s, is_silent=self._is_silent, wall_t=self._wall_time_s()
            )
        now["asked"] = self.asks.told()
        self._beat = PageBeat(self._beat.number + 1, msgspec.json.encode(now))

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, as far as its folder has been read."""
        return self._picture.is_over

    def ask(self) -> None:
        """Ask how the job stands; what goes wrong is a part of the picture, too.

        Raises:
            UsageError: there is no job that runs.
            TransportError: it does not answer.
        """
        if self._asked_s is None:
            self._asked_s = self._clock.now_s()
        try:
            status = self._status()
        except PacelineError as error:
            with self._lock:
                self._picture.note_unheard(str(error))
            raise
        with self._lock:
            self._picture.note_status(status, self._clock.now_s())
        self._asked_s = None

    def foresee(self, *, with_commands: bool = False) -> bool:
        """Forecast the job as it is known: a part of the next beat.

        Events that are none that is known make it one that cannot be made. Returns whether
        there is something to tell. ``with_commands``: that give the job other paces, for
        who looks at it where it runs.
        """
        try:
            with self._lock:
                measured = self._picture.measured()
            told = {} if measured is None else foresee(measured, self._clock.worked_s)
        except STRANGE as error:
            told = {"told": f"no forecast: what the job has told cannot be read ({error})"}
        except Exception as error:  # noqa: BLE001  (the page goes on, and says so)
            told = {"told": f"no forecast: {describe_error(error)}"}
        if with_commands:
            paces = [name for name, _ in told.get("paces", ())]
            told["commands"] = {pace: pace_command(self._job, pace) for pace in paces}
        with self._lock:
            self._picture.note_foreseen(told)
        return bool(told)

    def foresee_if_due(self) -> None:
        """Forecast the job while somebody looks, now and then: what the thread does."""
        is_over = self.is_over
        with self._lock:
            is_due = self._turns.is_due(self._clock.now_s(), is_over=is_over)
        if is_due:
            before_s = self._clock.worked_s()
            is_told = self.foresee(with_commands=not is_over)
            now_s, cost_s = self._clock.now_s(), self._clock.worked_s() - before_s
            with self._lock:
                self._turns.note_made(now_s, cost_s, is_told=is_told, is_over=is_over)

    def _foresee(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            self.foresee_if_due()

    def _ask(self) -> None:
        while not self._stop.is_set():
            if self.is_over:  # it may be resumed
                self._asked_s = None
            else:
                with suppress(PacelineError):  # the picture tells it
                    self.ask()
            self._has_asked.set()
            self._stop.wait(EVERY_S)

    def _status(self) -> JobStatus:
        return ask_status(self._job, self._clock)

    def _tell(self) -> None:
        while not self._stop.is_set():
            is_due = self._clock.now_s() - self._told_s >= EVERY_S
            if is_due or self._seems_silent() != self._is_silent or not self._beat.number:
                self.look()
            self._has_told.set()
            self._stop.wait(LOOK_EVERY_S)

    def _seems_silent(self) -> bool:
        asked_s = self._asked_s
        is_late = asked_s is not None and self._clock.now_s() - asked_s > SILENT_S
        return is_late and not self.is_over

    def _read(self) -> None:
        try:
            self._read_events()
            self._picture.note_unread("")
        except OSError as error:
            self._picture.note_unread(f"the events cannot be read: {error}")
        self._look_for_end()

    def _read_events(self) -> None:
        while self._tail is not None and (events := self._tail.read()):
            if self._tail.has_gap:
                self._tail.has_gap = False
                events.insert(0, {"t": events[0].get("t"), "event": UNREAD})
            with self._lock:
                for event in events:
                    try:
                        self._picture.note_event(event)
                    except STRANGE:
                        self._picture.note_strange()

    def _look_for_end(self) -> None:
        if not isinstance(self._job, JobDir):
            return
        with suppress(PacelineError):  # a file is damaged: it is as if it were not there
            summary = self._job.read_summary()
            if summary == self._summary:
                return
            status = None if summary is None else self._job.read_status()
            with self._lock:
                if summary is None:
                    self._picture.note_begun_again()
                else:
                    self._picture.note_end(summary, status)
            self._summary = summary


def ask_status(job: JobDir | JobDoor, clock: Clock) -> JobStatus:
    """How a job says it stands.

    Raises:
        UsageError: there is no job that runs.
        TransportError: it does not answer.
    """
    running = running_job(job, clock)
    if running is None:
        raise UsageError(f"{shown_name(job)} holds no job that runs")
    answer = call_running(running, OBSERVER, AskStatus(), Wires.observe, clock)
    if isinstance(answer, JobStatus):
        return answer
    told = answer.text if isinstance(answer, Refusal) else f"got {answer}"
    raise UsageError(f"{shown_name(job)} does not say how it stands: {told}")

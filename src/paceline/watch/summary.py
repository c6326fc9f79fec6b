"""How a run ended: one object, one exit code; and how fast it trained.

===========  =========  =============================================================
ending       exit code  when
===========  =========  =============================================================
trained      0          every record of the loops that were begun was trained
stopped      0          the script called `Session.stop`
gave up      3          finished, but tasks were given up on the way
failed       1          the job could not go on, or records were left out
interrupted  75         Ctrl-C, SIGTERM: worth starting again (EX_TEMPFAIL)
===========  =========  =============================================================

Pure: time is an argument.
"""

import enum
import html
from typing import Literal, NamedTuple, final

import msgspec

from paceline.ids import COORDINATOR
from paceline.messages.watching import JobStatus, Trained


class Ending(enum.Enum):
    """The ways in which a run ends."""

    TRAINED = "trained"
    STOPPED = "stopped"
    GAVE_UP = "gave up"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


EXIT_CODES = {
    Ending.TRAINED: 0,
    Ending.STOPPED: 0,
    Ending.GAVE_UP: 3,
    Ending.FAILED: 1,
    Ending.INTERRUPTED: 75,
}

StatusWord = Literal["finished", "failed", "stopped"]
_WORDS: dict[Ending, StatusWord] = {
    Ending.TRAINED: "finished",
    Ending.STOPPED: "stopped",
    Ending.GAVE_UP: "finished",
    Ending.FAILED: "failed",
    Ending.INTERRUPTED: "stopped",
}


class Verdict(NamedTuple):
    """How a run ended, and why."""

    ending: Ending
    reason: str
    may_resume: bool = False  # failed, but not for long: --resume goes on
    role: str = ""  # whose log's end the reason has, from its second line on

    @property
    def exit_code(self) -> int:
        """The exit code of the process that ran the job."""
        return EXIT_CODES[self.ending]


def tell_ending(ending: str, reason: str) -> str:
    """How a run ended, in words that say it once."""
    return reason if reason.startswith(ending) else f"{ending}: {reason}"


class TaskCounts(msgspec.Struct, frozen=True):
    """Tasks over all epochs."""

    done: int
    failed: int


class Restarts(msgspec.Struct, frozen=True):
    """Processes started again, by kind of role."""

    coordinator: int = 0
    server: int = 0
    trainer: int = 0


class Summary(msgspec.Struct, frozen=True):
    """The end of a run: ``summary.json``, and the last line of ``--json``.

    ``seconds`` are those of the whole run. ``start_seconds`` of them lie before its first
    batch; ``records_per_second`` is of its loops over batches, as
    the coordinator counts their time, and of its own records. ``ending``
    is an `Ending`, ``reason`` says why; both are empty in summaries of older versions.
    """

    status: StatusWord
    epochs: int
    records: int
    tasks: TaskCounts
    steps: int
    seconds: float
    records_per_second: float
    metrics: dict[str, float | None]
    restarts: Restarts
    job_dir: str
    counters: dict[str, int]  # of the servers, by name
    records_left_out: int = 0  # of the loops that were begun, when the run ended
    start_seconds: float | None = None  # None: it came to no batch
    ending: str = ""
    reason: str = ""

    def as_dict(self) -> dict[str, object]:
        """As plain data, ready for JSON."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain

    def rows(self) -> dict[str, str]:
        """What people read of it, {name: value as text}."""
        tasks = f"{self.tasks.done:,} done"
        if self.tasks.failed:
            tasks += f", {self.tasks.failed:,} failed"
        restarts, start_s = self.restarts, self.start_seconds
        began = "" if start_s is None else f", the first batch after {start_s:,.1f}"
        return {
            "status": self.status,
            "epochs": f"{self.epochs:,}",
            "records": f"{self.records:,}",
            "tasks": tasks,
            "steps": f"{self.steps:,}",
            "seconds": f"{self.seconds:,.1f}{began}",
            "records/s": f"{self.records_per_second:,.0f} in loops over batches",
            **{name: _number(value) for name, value in self.metrics.items()},
            "restarts": f"coordinator {restarts.coordinator}, server {restarts.server}, "
            f"trainer {restarts.trainer}",
            "job folder": self.job_dir,
        }

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self.rows().items()
        )
        return f"<table>{rows}</table>"


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.6g}"


NEVER_CONNECTED = (
    "the script has ended in every trainer, and none has called paceline.connect(): each "
    "ran it alone, and nothing was shared; call it before the model is made"
)


def decide_ending(status: JobStatus) -> Verdict:
    """How a run ended whose trainers have all exited cleanly."""
    queue = status.queue
    if status.error is not None:
        return Verdict(Ending.FAILED, status.error)
    if status.stopped is not None:
        return Verdict(Ending.STOPPED, f"the script stopped it: {status.stopped}")
    if queue.todo or queue.pending:
        left = queue.todo + queue.pending
        return Verdict(
            Ending.FAILED,
            f"all trainers have exited, but {left} tasks of {_what(status)}; --resume "
            "goes on with them, and session.stop(reason) ends a job early on purpose",
        )
    if not status.has_trainers:
        return Verdict(Ending.FAILED, NEVER_CONNECTED)
    if status.left_out:
        return Verdict(Ending.FAILED, _left_out(status))
    if status.tasks_failed:
        reason = f"{status.tasks_failed} tasks were given up; the events say why"
        return Verdict(Ending.GAVE_UP, reason)
    return Verdict(Ending.TRAINED, "every record was trained")


def where_it_stands(status: JobStatus) -> str:
    """How far a run has come that has failed, and what goes on from there."""
    done = f"{status.records:,} of {status.total_records:,} records are trained"
    goes_on = "; --resume goes on from the last cut" if status.records else ""
    return f"in epoch {status.epoch}, {done}{goes_on}"


def _what(status: JobStatus) -> str:
    if status.kind == "train":
        left = f"{_num_left_out(status):,} of {status.total_records:,} records"
        return f"epoch {status.epoch} are not trained: {left} are left out"
    word = "an evaluation" if status.kind == "evaluate" else "predictions"
    return f"{word} are left"


def _left_out(status: JobStatus) -> str:
    return (
        "all trainers have left a loop early (by break, or by an exception that the script "
        f"went on behind) in epoch {status.left_epoch}: {status.left_out:,} of "
        f"{status.total_records:,} records are left out; session.stop(reason) ends a job "
        "early on purpose"
    )


def _num_left_out(status: JobStatus) -> int:
    return max(0, status.total_records - status.records)


@final
class RunTime:
    """How long a run took to its first batch, and how fast it trained from then on.

    A coordinator tells how long its loops have trained. One that has restarted begins anew:
    what it was away for belongs to the loop in its midst.

    ``start_s`` is from the run's start to its first lease in a loop over batches; None
    before that.
    """

    def __init__(self, started_s: float) -> None:
        self.start_s: float | None = None
        self._started_s = started_s
        self._records_before = 0  # of the job, when its loops began in this run
        self._before_s = 0.0  # in coordinators before this one
        self._pid = 0  # of this one
        self._told = Trained(0.0, 0.0, 0)
        self._heard_s = started_s
        self._was_training = False

    def note(self, status: JobStatus, now: float) -> None:
        """Take note of how the job stands, on the clock of the run's start."""
        told = status.trained
        if told is None:
            return
        pid = next((p.pid for p in status.processes if p.id == COORDINATOR), 0)
        if self.start_s is None:
            self.start_s = max(0.0, now - told.since_s - self._started_s)
            self._records_before = told.records
        elif pid != self._pid:
            away_s = now - told.since_s - self._heard_s if self._was_training else 0.0
            self._before_s += self._told.seconds + max(0.0, away_s)
        self._pid, self._told, self._heard_s = pid, told, now
        self._was_training = bool(status.kind == "train" and status.queue.pending)

    def records_per_second(self, records: int) -> float:
        """The rate at which the job has come to so many records in this run's loops."""
        seconds = self._before_s + self._told.seconds
        return max(0, records - self._records_before) / seconds if seconds > 0 else 0.0


def summarize(
    status: JobStatus | None,
    verdict: Verdict,
    restarts: Restarts,
    seconds: float,
    job_dir: str,
    time: RunTime,
) -> Summary:
    """Sum a run up that took so many seconds from the first process's start.

    ``status`` is the coordinator's last word; None if it never spoke.
    """
    records = status.records if status else 0
    return Summary(
        status=_WORDS[verdict.ending],
        epochs=status.epochs if status else 0,
        records=records,
        tasks=TaskCounts(
            done=status.tasks_done if status else 0,
            failed=status.tasks_failed if status else 0,
        ),
        steps=status.steps if status else 0,
        seconds=round(seconds, 3),
        records_per_second=round(time.records_per_second(records), 1),
        metrics=dict(status.metrics) if status else {},
        restarts=restarts,
        job_dir=job_dir,
        counters=dict(status.counters) if status else {},
        records_left_out=_num_left_out(status) if status else 0,
        start_seconds=None if time.start_s is None else round(time.start_s, 3),
        ending=verdict.ending.value,
        reason=verdict.reason,
    )

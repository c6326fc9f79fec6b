"""A job as one row of a list: how it stands, how it ended, or that it said nothing.

Pure.
"""

from typing import Literal

import msgspec
from msgspec import structs

from paceline.config import JobConfig
from paceline.messages.watching import JobStatus
from paceline.watch.pulse import waited_for, worked_off
from paceline.watch.summary import EXIT_CODES, Ending, Summary, tell_ending

MOST_NAME = 80  # characters of a number's name


class JobRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job in a list.

    ``begun_t``, in seconds since 1970: when its last run began. ``lasted_s`` is None while
    it runs, ``silent_s`` while it answers. ``logged`` is its loss, or what it logs first;
    ``rate`` are records a second, None if they are not known yet.
    """

    name: str
    state: str
    kind: Literal["runs", "ended", "died", "unread"]
    begun_t: float
    note: str = ""
    code: int | None = None
    pace: str = ""
    trainers: int | None = None
    servers: int | None = None
    records: int | None = None
    total: int = 0
    rate: float | None = None
    logged: tuple[str, float | None] | None = None
    lasted_s: float | None = None
    silent_s: int | None = None


def begun_row(name: str, begun_t: float, config: JobConfig) -> JobRow:
    """A job that has begun, and of which nothing was heard yet."""
    return JobRow(
        name,
        "starting",
        "runs",
        begun_t,
        pace=str(config.pace),
        trainers=config.max_trainers,
        servers=config.servers,
    )


def running_row(row: JobRow, status: JobStatus, rate: float | None) -> JobRow:
    """How a job stands: what cannot be written, then what it waits for, is told."""
    roles = [one.role for one in status.processes]
    records, total = worked_off(status)
    return structs.replace(
        row,
        state=status.state,
        note=_held_up(status) if status.trouble is None else status.trouble.text,
        pace=status.pace,
        trainers=roles.count("trainer"),
        servers=roles.count("server"),
        records=records,
        total=total,
        rate=rate,
        logged=loss_of(status.metrics),
    )


def ended_row(row: JobRow, summary: Summary, last: JobStatus | None) -> JobRow:
    """How a job has ended; ``last`` is its coordinator's last word, if there was one."""
    is_told = summary.ending in {one.value for one in Ending}
    is_trained = summary.ending == Ending.TRAINED.value
    return structs.replace(
        row,
        state=summary.status,
        kind="ended",
        note="" if is_trained else tell_ending(summary.ending, summary.reason),
        code=EXIT_CODES[Ending(summary.ending)] if is_told else None,
        pace=row.pace if last is None else last.pace,
        records=summary.records,
        total=0 if last is None else last.total_records,
        rate=summary.records_per_second,
        logged=loss_of(summary.metrics),
        lasted_s=summary.seconds,
    )


def died_row(row: JobRow, lasted_s: float | None, again: str) -> JobRow:
    """A job whose launcher went without a word; ``again``: the command that goes on."""
    told = f"its launcher went without a summary; go on with: {again}"
    return structs.replace(row, state="died", kind="died", note=told, lasted_s=lasted_s)


def loss_of(metrics: dict[str, float | None]) -> tuple[str, float | None] | None:
    """Of the numbers that a script logs: its loss, else the first."""
    names = sorted(metrics, key=lambda one: (one != "loss", "loss" not in one.lower()))
    return (names[0][:MOST_NAME], metrics[names[0]]) if names else None


def _held_up(status: JobStatus) -> str:
    held_up = () if status.changing else waited_for(status.processes)
    return held_up[0].described(most=1) if held_up else status.changing or ""

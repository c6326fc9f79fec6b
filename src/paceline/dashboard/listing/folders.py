"""Which folders hold a job, and what their files tell of it.

A folder counts if it lies here, is no link, and holds a plain ``job.json``: its name alone
opens a page. One in which a file is none, but a link or a pipe, says so, and is not opened.

Waits: for the file system.
"""

import math
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from paceline.errors import PacelineError
from paceline.launch.job import JobDir, is_running, require_files
from paceline.watch.row import JobRow, begun_row, died_row, ended_row
from paceline.watch.summary import Summary

MOST_LISTED = 200
MOST_BYTES = 16 << 20  # of a file that is read: events are not
BEGIN_S = 60.0  # so long a job may take from its job.json to its run.json
_READ = ("job.json", "run.json", "summary.json", "status.json")
_EVENTS = ("events.jsonl", "events.old.jsonl")


class FileMark(NamedTuple):
    """By which a file is known not to have changed."""

    modified_ns: int
    inode: int
    size: int

    @property
    def modified_t(self) -> float:
        """When it was written last, in seconds since 1970."""
        return self.modified_ns / 1e9


class FileMarks(NamedTuple):
    """Of a job's files; None: it is no plain file that can be read, or not there."""

    config: FileMark | None = None
    run: FileMark | None = None
    summary: FileMark | None = None
    status: FileMark | None = None
    events: FileMark | None = None
    old_events: FileMark | None = None

    @property
    def begun_t(self) -> float:
        """When the job was begun, or was resumed."""
        return 0.0 if self.config is None else self.config.modified_t


class FoundJobs(NamedTuple):
    """Names of folders; ``left_out``: so many more hold a job."""

    names: list[str]
    left_out: int


class ReadJob(NamedTuple):
    """What files tell of a job; ``is_plain``: all of them are files."""

    row: JobRow
    is_plain: bool


def holds_jobs(root: Path) -> bool:
    """Whether a folder has folders of jobs in it."""
    with suppress(OSError, UnicodeEncodeError):  # a job's path is UTF-8
        return bool(str(root.absolute()).encode() and _found(root))
    return False


def find_jobs(root: Path) -> FoundJobs:
    """The newest `MOST_LISTED`, with all that run among them.

    Raises:
        OSError: the folder cannot be read.
    """
    found = sorted(_found(root), reverse=True)
    if len(found) > MOST_LISTED:
        found.sort(key=lambda one: not _runs(root / one[1]))
    names = [name for _, name in found[:MOST_LISTED]]
    return FoundJobs(names, len(found) - len(names))


def marks_of(job: JobDir) -> FileMarks:
    """How a job's files are now."""
    read = (_mark(job.path / name) for name in _READ)
    return FileMarks(*read, *(_mark(job.path / name, math.inf) for name in _EVENTS))


def read_job(job: JobDir, marks: FileMarks, now_t: float) -> ReadJob:
    """What a job's files tell, as their marks are; of a damaged one, why it is not read."""
    is_plain = False
    try:
        require_files(job.path / name for name in _READ + _EVENTS)
        is_plain = True
        row = _row(job, marks, now_t)
    except Exception as error:  # noqa: BLE001  (one folder holds up no other)
        row = JobRow(job.path.name, "not readable", "unread", marks.begun_t, str(error))
    return ReadJob(row, is_plain)


def _found(root: Path) -> list[tuple[float, str]]:
    """When jobs were begun, and their names."""
    found = []
    with os.scandir(root) as entries:
        for entry in entries:
            with suppress(OSError, UnicodeEncodeError):  # it went; it is no job's name
                if entry.is_dir(follow_symlinks=False) and entry.name.encode():
                    mark = _mark(Path(entry.path, "job.json"))
                    if mark is not None:
                        found.append((mark.modified_t, entry.name))
    return found


def _mark(path: Path, most_bytes: float = MOST_BYTES) -> FileMark | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    is_plain = stat.S_ISREG(found.st_mode) and found.st_size <= most_bytes
    mark = FileMark(found.st_mtime_ns, found.st_ino, found.st_size)
    return mark if is_plain else None


def _runs(folder: Path) -> bool:
    job = JobDir(folder)
    with suppress(PacelineError, OSError, RecursionError):  # damaged, or another user's
        return _mark(job.run_file) is not None and is_running(job)
    return False


def _row(job: JobDir, marks: FileMarks, now_t: float) -> JobRow:
    """What files tell of a job.

    Raises:
        PacelineError, ValueError: one of them is damaged.
    """
    blank = begun_row(job.path.name, marks.begun_t, job.read_config())
    if marks.summary is not None and (summary := job.read_summary()) is not None:
        status = None if marks.status is None else job.read_status()
        return ended_row(blank, msgspec.convert(summary, Summary), status)
    begins = marks.run is None and now_t - marks.begun_t < BEGIN_S
    if begins or (marks.run is not None and is_running(job)):
        return blank
    written, began_t = marks.events or marks.old_events, marks.begun_t
    lasted_s = None if written is None else max(0.0, written.modified_t - began_t)
    return died_row(blank, lasted_s, job.resume_command())

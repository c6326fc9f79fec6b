"""How far a job's events are in a tool, so that whoever goes on doubles and loses nothing.

A mark lies in the job folder, ``trackers/<tool>-<digest of where>.json``, and is written
after what it speaks of: who is killed in between says the last second again, and what a
tool makes of that, its own file here says.

Waits: for the file system only.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import final

import msgspec
import xxhash

from paceline.errors import StoreError, UsageError
from paceline.launch.job import JobDir, write_whole
from paceline.machine import AS_BYTES, NO_LINK, hold_file
from paceline.trackers.points import ReaderState
from paceline.trackers.tracker import Kept
from paceline.watch.tail import LogPlace

FOLDER = "trackers"  # of a job folder
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | AS_BYTES | NO_LINK


class TrackMark(msgspec.Struct, frozen=True):
    """Behind which line, what was known there, and what the tool goes on with."""

    place: LogPlace | None
    state: ReaderState
    kept: Kept


@final
class MarkFile:
    """The mark of one job in one tool."""

    def __init__(self, job: JobDir, tool: str, where: str) -> None:
        """``where`` is all that tells one run of the tool from another."""
        digest = xxhash.xxh3_64_hexdigest(where.encode())
        self.path = job.path / FOLDER / f"{tool}-{digest}.json"

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Be the only one who writes; the hold falls with its process.

        Raises:
            UsageError: another process writes already, or the job folder takes nothing.
        """
        lock = self.path.with_suffix(".lock")
        try:
            lock.parent.mkdir(exist_ok=True)
            descriptor = os.open(lock, _LOCK_FLAGS, 0o666)
        except OSError as error:
            raise UsageError(
                f"cannot write to {lock.parent}, where it is kept how far a job is "
                f"tracked: {error.strerror}; track a copy of the job folder"
            ) from error
        try:
            try:
                hold_file(descriptor)
            except BlockingIOError:
                raise UsageError(
                    f"another process tracks this job there already (it holds {lock})"
                ) from None
            yield
        finally:
            os.close(descriptor)

    def read(self) -> TrackMark | None:
        """The mark; None: there is none.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=TrackMark)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise StoreError(
                f"cannot read {self.path}: {error}; remove it, and what the tool has of "
                "this run, to write the run anew"
            ) from error

    def write(self, mark: TrackMark) -> None:
        """Put a mark in the place of that before, whole or not at all.

        Raises:
            StoreError: it cannot be written.
        """
        try:
            write_whole(self.path, mark)
        except OSError as error:
            raise StoreError(f"cannot write {self.path}: {error.strerror}") from error

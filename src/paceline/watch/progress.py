"""What a user sees while a job runs: a bar on a terminal, else a line now and then.

Everything goes to standard error, so that standard output stays a program's own. In a
notebook it is the output of the cell, written anew.
``NO_COLOR`` is honored.

Waits: for the terminal only. For one thread; lines to `say` may come from another, too.
"""

import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO, final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from paceline.messages.watching import JobStatus, Resumed, Trouble
from paceline.watch.pulse import (
    Rate,
    describe,
    describe_records,
    one_line,
    went_back,
    worked_off,
)

LINE_EVERY_S = 5.0
CELL_EVERY_S = 0.5
CELL_LINES = 100  # of a cell's output; the job's folder has all
CELL_LINES_AT_ONCE = 20
AGAIN_S = 10.0  # what lasts is said again


def _first_line(resumed: Resumed, pace: str) -> str:
    if resumed.cut is None:
        return "goes on without a checkpoint: none is there, so the job begins anew"
    moment = datetime.fromtimestamp(resumed.created, tz=UTC).astimezone()
    return (
        f"goes on from checkpoint {resumed.cut} of {moment:%Y-%m-%d %H:%M:%S}, "
        f"{resumed.records:,} records, at {pace}"
    )


class Show(ABC):
    """Shows how a job goes on, and where from: at first, and after a loss."""

    def __init__(self) -> None:
        self._rate = Rate()
        self._is_begun = False  # where the job went on is told
        self._before: JobStatus | None = None

    def show(self, status: JobStatus, restarts: int, now: float) -> None:
        """Show a status; called several times a second."""
        if not self._is_begun and status.resumed is not None:
            self._is_begun = True
            self.say(_first_line(status.resumed, status.pace))
            for why in status.resumed.passed_over:
                self.say(f"passed over: {why}")
        before, self._before = self._before, status
        if before is not None and (back := went_back(before, status)) is not None:
            self.say(back)
        self._rate.note(status, now)
        self._draw(status, restarts, now)

    @abstractmethod
    def _draw(self, status: JobStatus, restarts: int, now: float) -> None:
        """Show it, where that is due."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Say something that happened."""

    @abstractmethod
    def close(self) -> None:
        """Show nothing more."""


@final
class Bar(Show):
    """A bar that stays in its line."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=32),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None)
        self._bar.start()

    def _draw(self, status: JobStatus, restarts: int, now: float) -> None:
        del now
        standing = (self._rate.per_second(), restarts, self._rate.stands_s())
        pieces = describe(status, *standing)
        completed, total = worked_off(status)
        self._bar.update(
            self._task,
            completed=completed,
            total=total or None,
            description="  ".join([describe_records(status), *pieces]),
        )

    def say(self, text: str) -> None:
        """Print above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Take the bar away."""
        self._bar.stop()


@final
class Lines(Show):
    """A plain line every few seconds."""

    def __init__(self, output: TextIO, prefix: str = "") -> None:
        """Nothing is shown before the first status; each line begins with ``prefix``."""
        super().__init__()
        self._output, self._prefix = output, prefix
        self._first_s: float | None = None
        self._next_s = 0.0

    def _draw(self, status: JobStatus, restarts: int, now: float) -> None:
        if self._first_s is None:
            self._first_s, self._next_s = now, now + LINE_EVERY_S
        if now < self._next_s:
            return
        self._next_s = now + LINE_EVERY_S
        rate, seconds = self._rate, now - self._first_s
        standing = (rate.per_second(), restarts, seconds, rate.stands_s())
        self.say(one_line(status, *standing))

    def say(self, text: str) -> None:
        """Print a line; some have the prefix already."""
        self._output.write(f"{self._prefix}{text.removeprefix(self._prefix)}\n")
        self._output.flush()

    def close(self) -> None:
        """Nothing is held."""


@final
class CellOutput(Show):
    """The output of a notebook's cell: what was said, and below it how the job stands."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """``write`` puts a text in the place of the one before."""
        super().__init__()
        self._write = write
        self._said: deque[str] = deque(maxlen=CELL_LINES)
        self._standing = "starting"
        self._first_s: float | None = None
        self._next_s = 0.0
        self._unasked = 0  # lines since it was drawn
        self._lock = threading.Lock()  # a trainer's output is said by a thread of its own

    def _draw(self, status: JobStatus, restarts: int, now: float) -> None:
        if self._first_s is None:
            self._first_s = now
        if now < self._next_s:
            return
        self._next_s = now + CELL_EVERY_S
        rate, seconds = self._rate, now - self._first_s
        standing = (rate.per_second(), restarts, seconds, rate.stands_s())
        with self._lock:
            self._standing = one_line(status, *standing)
            self._unasked = 0
            self._show()

    def say(self, text: str) -> None:
        """Write a line that stays; of many at once the last ones when it is drawn next."""
        with self._lock:
            self._said.append(text)
            self._unasked += 1
            if self._unasked <= CELL_LINES_AT_ONCE:  # each line sends the whole cell again
                self._show()

    def close(self) -> None:
        """Leave what was said."""
        with self._lock:
            self._standing = ""
            self._show()

    def _show(self) -> None:
        self._write("\n".join([*self._said, self._standing]).rstrip())


def open_show(output: TextIO) -> Show:
    """The cell's output in a notebook; a bar if ``output`` is a terminal; else lines."""
    if (write := _cell()) is not None:
        return CellOutput(write)
    console = Console(file=output)
    return Bar(console) if console.is_terminal else Lines(output)


def names_of_notebook() -> dict[str, object] | None:
    """What the cells of a notebook have named; None in no kernel of one."""
    ipython: Any = sys.modules.get("IPython")  # Any: it need not be there
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    names: dict[str, object] = shell.user_ns
    return names


def _cell() -> Callable[[str], None] | None:
    """What writes an output of the cell that runs; None in no kernel of a notebook."""
    if names_of_notebook() is None:
        return None
    ipython: Any = sys.modules["IPython"]
    handle = ipython.display.display({"text/plain": ""}, raw=True, display_id=True)
    return lambda text: handle.update({"text/plain": text}, raw=True)


@final
class Troubles:
    """What cannot be written: said when it begins, while it lasts, when it works again.

    In lines of its own: a bar crops what is longer than the terminal is wide.
    """

    def __init__(self) -> None:
        self._journal: Trouble | None = None
        self._checkpoint: Trouble | None = None
        self._again_s = 0.0  # when what lasts is said again

    def note(self, trouble: Trouble | None, now: float) -> list[str]:
        """Take note of how it stands; what is to be said of it.

        While the journal cannot be written, nothing is known of checkpoints.
        """
        said = self._changed(trouble)
        if trouble is not None and not said and now >= self._again_s:
            said.append(trouble.text)
        if said:
            self._again_s = now + AGAIN_S
        return said

    def _changed(self, trouble: Trouble | None) -> list[str]:
        said = []
        if trouble is not None and trouble.kind == "journal":
            if self._journal is None:
                said.append(trouble.text)
            self._journal = trouble
            return said
        if self._journal is not None:
            disk = f" of {self._journal.place}" if self._journal.place else ""
            said.append(f"there is space on the disk{disk} again: the job goes on")
            self._journal = None
        if self._checkpoint is None and trouble is not None:
            said.append(trouble.text)
        elif self._checkpoint is not None and trouble is None:
            said.append("checkpoints are written again")
        self._checkpoint = trouble
        return said

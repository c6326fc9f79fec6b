"""What a user sees while a job runs: a bar on a terminal, else a line now and then.

Everything goes to standard error, so that standard output stays a program's own.
``NO_COLOR`` is honored.

Waits: for the terminal only. For one thread.
"""

from abc import ABC, abstractmethod
from typing import TextIO, final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from paceline.messages.watching import JobStatus
from paceline.watch.beginning import Beginning
from paceline.watch.pulse import Rate, describe, describe_records, one_line, worked_off

LINE_EVERY_S = 5.0


class Show(ABC):
    """Shows how a job goes on."""

    @abstractmethod
    def show(self, status: JobStatus, restarts: int, now: float) -> None:
        """Show a status; called several times a second."""

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
        self._rate, self._beginning = Rate(), Beginning()
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

    def show(self, status: JobStatus, restarts: int, now: float) -> None:
        """Move the bar."""
        for text in self._beginning.told(status):
            self.say(text)
        rate = self._rate
        rate.note(status, now)
        pieces = describe(status, rate.per_second(), restarts, rate.stands_s())
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
        self._output, self._prefix = output, prefix
        self._rate, self._beginning = Rate(), Beginning()
        self._first_s: float | None = None
        self._next_s = 0.0

    def show(self, status: JobStatus, restarts: int, now: float) -> None:
        """Print a line if one is due."""
        for text in self._beginning.told(status):
            self.say(text)
        if self._first_s is None:
            self._first_s, self._next_s = now, now + LINE_EVERY_S
        self._rate.note(status, now)
        if now < self._next_s:
            return
        self._next_s = now + LINE_EVERY_S
        rate, seconds = self._rate, now - self._first_s
        standing = (rate.per_second(), restarts, seconds, rate.stands_s())
        self.say(one_line(status, *standing))

    def say(self, text: str) -> None:
        """Print a line."""
        self._output.write(f"{self._prefix}{text}\n")
        self._output.flush()

    def close(self) -> None:
        """Nothing is held."""


def open_show(output: TextIO) -> Show:
    """A bar if ``output`` is a terminal, else lines."""
    console = Console(file=output)
    return Bar(console) if console.is_terminal else Lines(output)

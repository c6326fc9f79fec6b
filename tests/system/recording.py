"""A command on a terminal of its own, and what somebody sees there, with the seconds.

What stays on the screen is told when it came; a bar, which is drawn again and again, as
often as is worth reading.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

COLUMNS, ROWS = 100, 40
BAR = re.compile(r"━|^ *[\d,]+ of [\d,]+ records")  # a long line leaves no bar
SAMPLE_EVERY_S = 5.0
LIMIT_S = 240.0
PIECE = re.compile(
    r"\x1b\[(?P<code>[\d;?]*)(?P<kind>[A-Za-z])|(?P<key>[\r\n])|[^\x1b\r\n]+"
)


class Recording:
    """A command that runs on a terminal.

    Attributes:
        code: its exit code; None while it runs.
        pid: of its process.
    """

    def __init__(self, command: Sequence[str], here: Path, **environment: str) -> None:
        """Start it in the folder ``here``."""
        self.code: int | None = None
        self._began_s = time.monotonic()
        self._rows: list[tuple[float, str]] = [(0.0, "")]  # the screen, as if without end
        self._samples: list[tuple[float, str]] = []  # of the bar
        self._row = 0
        self._shown = f"$ {' '.join(command)}"
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(here)
            usual = {name: os.environ[name] for name in os.environ if name != "COLUMNS"}
            os.execvpe(command[0], command, {**usual, "TERM": "xterm", **environment})
        size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._terminal)

    def press_ctrl_c(self) -> None:
        """As a key of the terminal."""
        os.write(self._terminal, b"\x03")

    def wait(self, is_there: Callable[[], object], what: str) -> None:
        """Look on until something is the case."""
        until_s = time.monotonic() + LIMIT_S
        while not is_there():
            assert time.monotonic() < until_s, f"{what} did not come:\n{self.text()}"
            assert self._look() or is_there(), f"ended before {what}:\n{self.text()}"

    def wait_shown(self, text: str) -> None:
        """Look on until a text, a regular expression, is in a line of the screen."""
        self.wait(lambda: any(re.search(text, row) for _, row in self._rows), text)

    def wait_ended(self) -> int:
        """Look on to the end; the exit code."""
        self.wait(lambda: not self._look(), "the end")
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code

    def lines(self) -> list[str]:
        """What stays on the screen."""
        return [text.rstrip() for _, text in self._rows if text]

    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._began_s

    def text(self) -> str:
        """The recording."""
        told = sorted([*self._rows, *self._samples], key=lambda one: one[0])
        lines = [f"{seconds:6.1f} s  {text.rstrip()}" for seconds, text in told if text]
        return "\n".join([self._shown, *lines])

    def _look(self) -> bool:
        """Take in what comes within a moment; false when nothing will."""
        if not select.select([self._terminal], [], [], 0.1)[0]:
            return True
        try:
            came = os.read(self._terminal, 1 << 16)
        except OSError:  # EIO: nobody has the terminal open any more
            return False
        for piece in PIECE.finditer(came.decode(errors="replace")):
            self._show(piece)
        self._sample()
        return bool(came)

    def _show(self, piece: re.Match[str]) -> None:
        seconds, row = self.seconds(), self._row
        if piece["key"] == "\n":
            self._row += 1
            if self._row == len(self._rows):
                self._rows.append((seconds, ""))
        elif piece["kind"] == "A":
            self._row = max(0, row - int(piece["code"] or 1))
        elif piece["kind"] == "K":
            self._rows[row] = (seconds, "")
        elif piece["kind"] is None and piece["key"] is None:
            self._rows[row] = (seconds, self._rows[row][1] + piece[0])

    def _sample(self) -> None:
        bar = next((n for n, (_, text) in enumerate(self._rows) if BAR.search(text)), None)
        if bar is None:
            return
        last_s = self._samples[-1][0] if self._samples else -SAMPLE_EVERY_S
        if self.seconds() - last_s >= SAMPLE_EVERY_S:
            shown = [text.rstrip() for _, text in self._rows[bar:] if text]
            self._samples.append((self.seconds(), "\n          ".join(shown)))

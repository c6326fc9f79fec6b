"""What SLURM writes and paceline reads: lists of machines, and the log of a step.

::

    n[1-3],gpu-a[07-09]                                    a list of machines
    1: paceline: error: paceline 0.2 is installed here     a line of a task, by --label
    srun: error: n3: task 1: Exited with exit code 2       srun's own

srun begins each line of a task with its number: what a script writes is never taken for
srun's own words.

Pure.
"""

import re
from collections.abc import Iterator
from typing import Final, final

from paceline.errors import PREEMPTED_EXIT_CODE, UsageError

MOST_HOSTS: Final = 1 << 16  # that a list may stand for
LINE_BYTES: Final = 4096  # of a log; what follows in a line is not read

_OF_TASK = re.compile(r" *(\d+): (.+)", re.ASCII)
_ENDED = re.compile(r"srun: error: (\S+): tasks? ([\d,-]+): (.+)", re.ASCII)
_TOLD_TO_LEAVE = f"Exited with exit code {PREEMPTED_EXIT_CODE}"  # it has said so itself


@final
class StepLog:
    """The log of one step, which grows."""

    def __init__(self) -> None:
        """Nothing of it was read."""
        self._rest = b""  # a line that has no end yet
        self._words: dict[str, str] = {}  # {number of a task: its last line}
        self._gone: dict[str, tuple[str, str]] = {}  # {machine: the number, how it ended}
        self._told: set[str] = set()  # of these

    def read(self, more: bytes) -> dict[str, str]:
        """Which machines are gone by what was read before ``more``: {name: how}.

        Each is told once, with its last words, which may have come after srun's.
        """
        due = self._gone.keys() - self._told
        *lines, rest = (self._rest + more).split(b"\n")
        self._rest = rest[:LINE_BYTES]
        for line in lines:
            self._read_line(line[:LINE_BYTES].decode(errors="replace"))
        self._told |= due
        return {name: self._how(*self._gone[name]) for name in sorted(due)}

    def _read_line(self, line: str) -> None:
        if found := _OF_TASK.match(line):
            self._words[found[1]] = found[2]
        elif (found := _ENDED.match(line)) and found[3] != _TOLD_TO_LEAVE:
            try:
                names, numbers = expand_hosts(found[1]), expand_hosts(f"[{found[2]}]")
            except UsageError:  # a line of something else
                return
            for name, number in zip(names, numbers, strict=False):
                self._gone.setdefault(name, (number, found[3]))

    def _how(self, number: str, how: str) -> str:
        return f"{how}: {self._words[number]}" if number in self._words else how


_PIECE = re.compile(r"[^,\[\]]+|\[[^\[\]]*\]|,")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


def expand_hosts(text: str) -> list[str]:
    """The names that a list of SLURM's stands for: ``n[1-3],gpu-a[07-09]``; pure.

    Where a container has no scontrol, nobody else can tell.

    Raises:
        UsageError: it is no such list, or stands for too many.
    """
    names: list[str] = []
    last: list[str] = []  # beginnings of the names that are being read
    pieces = _PIECE.findall(text)
    if "".join(pieces) != text:
        raise _no_list(text)
    for piece in [*pieces, ","]:
        if piece == ",":
            if not last:
                raise _no_list(text)
            names, last = names + last, []
            continue
        ends = list(_ends(piece, text)) if piece.startswith("[") else [piece]
        last = [start + end for start in last or [""] for end in ends]
        if len(last) + len(names) > MOST_HOSTS:
            raise UsageError(f"{text}: stands for more than {MOST_HOSTS} machines")
    return names


def _ends(piece: str, text: str) -> Iterator[str]:
    """What the brackets stand for; leading zeros are kept."""
    for part in piece[1:-1].split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise _no_list(text)
        first, last = found[1], found[2] or found[1]
        if not 0 <= int(last) - int(first) < MOST_HOSTS:
            raise _no_list(text)
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"


def _no_list(text: str) -> UsageError:
    return UsageError(
        f"expected a list of machines such as n[1-3],gpu-a[07-09], got {text!r}"
    )

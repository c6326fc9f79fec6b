"""Which process above this one is torchrun: a wrapper, such as a profiler, may be between.

Waits: for nothing. Source: proc(5).
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from paceline.errors import UsageError
from paceline.launch.torchrun.found import RUN_ID, is_torchrun

_TORCH = b"/libtorch"  # mapped by whatever starts processes by torch's own agent
_PROC = Path("/proc")


class Above(NamedTuple):
    """torchrun's process; ``started``: when, so that no other process of its id is it."""

    pid: int
    started: int
    command_line: list[str]


def find_torchrun(environ: Mapping[str, str], parent: int, proc: Path = _PROC) -> Above:
    """The nearest process, from ``parent`` up, that has not been started by torchrun.

    Raises:
        UsageError: there is none.
    """
    own = os.fsencode(f"{RUN_ID}={environ[RUN_ID]}")
    for pid, started in _ancestors(parent, proc):
        at = proc / str(pid)
        if own in _read(at / "environ").split(b"\0"):
            continue  # a wrapper
        words = [os.fsdecode(word) for word in _read(at / "cmdline").split(b"\0")[:-1]]
        if is_torchrun(words) or _TORCH in _read(at / "maps"):
            return Above(pid, started, words)
    raise UsageError(
        f"this process was started with torchrun's environment ({RUN_ID} is set), but no "
        "torchrun is found above it: it has gone, or what started this process has only "
        f"kept its variables; unset {RUN_ID} to train alone, or use paceline run"
    )


def _ancestors(pid: int, proc: Path) -> Iterator[tuple[int, int]]:
    """(process, when it was started), up to the first of all."""
    while pid > 0:
        fields = _read(proc / str(pid) / "stat").rpartition(b")")[2].split()
        if not fields:
            return
        yield pid, int(fields[19])
        pid = int(fields[1])


def _read(path: Path) -> bytes:
    with suppress(OSError):  # it has gone, or is another user's
        return path.read_bytes()
    return b""

"""What processes hold that others could be done with: descriptors and shared memory.

Read from ``/proc``, from outside; who dies while it is looked at is not counted.
"""

import os
import threading
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import psutil

MARK = "/memfd:paceline-"
LOOK_EVERY_S = 0.2
KINDS = {"coordinator", "server", "trainer"}


class Holding(NamedTuple):
    """One process, at one moment.

    Args:
        role: its name.
        pid: of it.
        descriptors: how many are open.
        memory: what it looks at that could be shared, ``{inode: process that made it}``.
    """

    role: str
    pid: int
    descriptors: int
    memory: dict[int, int]


def holding(pid: int) -> Holding | None:
    """What a process holds; None if it is dead, or dies meanwhile."""
    root = Path("/proc", str(pid))
    try:
        if (root / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return None
        role = (root / "comm").read_text().strip()
        descriptors = len(os.listdir(root / "fd"))
        lines = [line for line in (root / "maps").read_text().splitlines() if MARK in line]
    except (FileNotFoundError, ProcessLookupError):
        return None
    memory = {}
    for line in lines:
        fields = line.split()  # a mapping's inode and its file's name, as it was made
        memory[int(fields[4])] = int(fields[5].removeprefix(MARK))
    return Holding(role, pid, descriptors, memory)


def processes_of(fork_server: int) -> list[Holding]:
    """What the living processes that a fork server has forked hold."""
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(fork_server).children()
        return [found for child in children if (found := holding(child.pid)) is not None]
    return []


def memory_of_the_dead(processes: Iterable[Holding]) -> list[str]:
    """Who of all processes of a job still looks at memory that a dead one has made."""
    found = list(processes)
    living = {one.pid for one in found}
    return [
        f"{one.role} ({one.pid}) looks at memory of {maker}, which is dead"
        for one in found
        for maker in one.memory.values()
        if maker not in living
    ]


class Watch:
    """Looks at a job's processes every so often, in a thread of its own.

    Attributes:
        most_memory: ``{kind of role: most pieces of memory that one process had}``.
        growth: ``{role: most descriptors that one process had more than at first}``.
    """

    def __init__(self, fork_server: int) -> None:
        self.most_memory: dict[str, int] = defaultdict(int)
        self.growth: dict[str, int] = defaultdict(int)
        self._first: dict[int, int] = {}  # {process: its descriptors at first}
        self._fork_server = fork_server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            for one in processes_of(self._fork_server):
                self._note(one)

    def _note(self, one: Holding) -> None:
        kind = one.role.partition("-")[0]
        if kind not in KINDS:
            return  # a fork that has not got its name yet
        self.most_memory[kind] = max(self.most_memory[kind], len(one.memory))
        grown = one.descriptors - self._first.setdefault(one.pid, one.descriptors)
        self.growth[one.role] = max(self.growth[one.role], grown)

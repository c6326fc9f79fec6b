"""A stopwatch for a training loop: its steps, and what the processes of its job spend."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import psutil

T = TypeVar("T")


class Stopwatch:
    """Times the steps behind the warm ones, and what the other processes of a job spend."""

    def __init__(
        self, warm: int, timed: int, count: Callable[[], Mapping[str, int]] = dict
    ) -> None:
        self.seconds = 0.0
        self.counted: dict[str, int] = {}  # {what: of the timed steps}, if it is counted
        self.cpu_ms: dict[str, float] = {}  # {process: of its processors, per step}
        self._warm, self._timed, self._count = warm, timed, count
        self._processes = _siblings()

    def watch(self, batches: Iterable[T]) -> Iterator[T]:
        """The batches; the time runs until the last one's step is over."""
        began_s = 0.0
        began_cpu_s: dict[str, float] = {}
        began: Mapping[str, int] = {}
        for number, batch in enumerate(batches):
            if number == self._warm:
                began_cpu_s, began = self._cpu_s(), self._count()
                began_s = time.perf_counter()
            yield batch
            if number == self._warm + self._timed - 1:
                self.seconds = time.perf_counter() - began_s
                self.counted = {what: n - began[what] for what, n in self._count().items()}
                self.cpu_ms = {
                    name: 1000 * (now - began_cpu_s[name]) / self._timed
                    for name, now in self._cpu_s().items()
                }

    def _cpu_s(self) -> dict[str, float]:
        spent = {name: p.cpu_times() for name, p in self._processes.items()}
        return {name: times.user + times.system for name, times in spent.items()}


def _siblings() -> dict[str, psutil.Process]:
    """{name: process} of this job's processes, by the fork server that made them."""
    me = psutil.Process()
    if "PACELINE_ROLE" not in os.environ:
        return {"trainer": me}
    children = me.parent().children()
    return {child.name(): child for child in children}

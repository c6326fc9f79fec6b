"""A process whose memory and processor time are measured from outside.

Waits: for it to be ready, and for its end.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psutil

from benchmarks.harness.figures import Figure, Kind
from benchmarks.harness.record import ROOT

REQUESTS = "requests"


@contextmanager
def measured_process(module: str, *words: object) -> Iterator[tuple[str, psutil.Process]]:
    """A process that listens, until the end: its address, and itself.

    Args:
        module: of this room; it serves at ``s.sock`` of the folder that is its first word.
        words: behind the folder.

    Raises:
        RuntimeError: it did not start.
    """
    with tempfile.TemporaryDirectory(prefix="paceline-scale-") as name:
        child = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.scale.{module}", name, *map(str, words)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            if child.stdout.readline() != "ready\n":
                raise RuntimeError(f"{module} {words} did not start")
            yield f"unix:{name}/s.sock", psutil.Process(child.pid)
        finally:
            child.stdin.close()
            child.wait()
            child.stdout.close()


class Rates(NamedTuple):
    """What was reached with a process, and what each request cost it."""

    per_s: list[float]
    cpu_us: list[float]

    def figures(self, who: str, kind: Kind = "ours") -> list[Figure]:
        """Both."""
        cost = tuple(self.cpu_us)
        return [
            Figure(REQUESTS, who, kind, "a second", tuple(self.per_s), True),
            Figure("processor time of a request", who, kind, "us", cost),
        ]


def measured_rates(process: psutil.Process, ask: Callable[[], int], times: int) -> Rates:
    """Ask so often; `ask` says how many requests were answered."""
    rates = Rates([], [])
    for _ in range(times):
        cpu_s, start_s = sum(process.cpu_times()[:2]), time.perf_counter()
        count = ask()
        rates.per_s.append(count / (time.perf_counter() - start_s))
        rates.cpu_us.append((sum(process.cpu_times()[:2]) - cpu_s) / count * 1e6)
    return rates

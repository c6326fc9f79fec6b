"""A process whose memory and processor time are measured from outside.

Waits: for it to be ready, and for its end.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from benchmarks.harness.record import ROOT


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

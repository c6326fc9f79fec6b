"""`examples/clusters/kmeans.py` as a job of the benchmark: alike, or one trainer slower.

::

    python clusters_job.py FOLDER SLOWER [the example's own options]

What the second trainer computes takes SLOWER times as long, by sleeping, so that it needs
no core of its own. Each trainer leaves in FOLDER how much processor time it has used from
its first iteration known to its last.

Waits: as the example does, and asleep.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "clusters"
sys.path.insert(0, str(FOLDER))

import kmeans  # noqa: E402  (it lies in a folder of scripts)
import lloyd  # noqa: E402

from paceline.launch.job.environment import ROLE  # noqa: E402

SLOW = "trainer-1"


def slow_down(factor: float) -> None:
    """Let all that this process computes take so many times as long."""

    def slowed(compute: Callable[..., Any]) -> Callable[..., Any]:
        def compute_slowly(*arguments: Any) -> Any:  # noqa: ANN401  (as it was)
            began_s = time.monotonic()
            found = compute(*arguments)
            time.sleep((factor - 1) * (time.monotonic() - began_s))
            return found

        return compute_slowly

    lloyd.assign = slowed(lloyd.assign)
    for name in ("meet", "add_to"):
        setattr(lloyd.Nearest, name, slowed(getattr(lloyd.Nearest, name)))


def note_cpu_s() -> list[float]:
    """Note this process's processor time at each iteration known."""
    noted: list[float] = []
    note = kmeans.Course.note

    def note_both(course: kmeans.Course, inertia: float) -> None:
        note(course, inertia)
        noted.append(time.process_time())

    kmeans.Course.note = note_both
    return noted


if __name__ == "__main__":
    role = os.environ[ROLE]
    folder, slower = Path(sys.argv[1]), float(sys.argv[2])
    del sys.argv[1:3]
    noted = note_cpu_s()
    if role == SLOW and slower > 1:
        slow_down(slower)
    kmeans.main()
    (folder / f"{role}.processor_s").write_text(repr(noted[-1] - noted[0]))

"""`examples/clusters/kmeans.py` as a job of the benchmark: alike, or one trainer slower.

``--slow-trainer 4`` in front of the example's own options: the second trainer's assignments
take four times as long, by sleeping, so that they need no core of their own.

Waits: as the example does, and asleep.
"""

import os
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "clusters"
sys.path.insert(0, str(FOLDER))

import kmeans  # noqa: E402  (it lies in a folder of scripts)
import lloyd  # noqa: E402

from paceline.launch.environment import ROLE  # noqa: E402

SLOW = "trainer-1"


def slow_down(factor: float) -> None:
    """Let every assignment of this process take so many times as long."""
    assign = lloyd.assign

    def assign_slowly(points: lloyd.Points, centroids: lloyd.Centroids) -> lloyd.Statistics:
        began_s = time.monotonic()
        found = assign(points, centroids)
        time.sleep((factor - 1) * (time.monotonic() - began_s))
        return found

    lloyd.assign = assign_slowly


if __name__ == "__main__":
    if sys.argv[1] == "--slow-trainer":
        if os.environ.get(ROLE) == SLOW:
            slow_down(float(sys.argv[2]))
        del sys.argv[1:3]
    kmeans.main()

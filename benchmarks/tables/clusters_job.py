"""`examples/clusters/kmeans.py` as a job of the benchmark: alike, or one trainer slower.

``--slow-trainer 4`` in front of the example's own options: what the second trainer
computes takes four times as long, by sleeping, so that it needs no core of its own.

Waits: as the example does, and asleep.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "clusters"
sys.path.insert(0, str(FOLDER))

import kmeans  # noqa: E402  (it lies in a folder of scripts)
import lloyd  # noqa: E402

from paceline.launch.environment import ROLE  # noqa: E402

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


if __name__ == "__main__":
    if sys.argv[1] == "--slow-trainer":
        if os.environ.get(ROLE) == SLOW:
            slow_down(float(sys.argv[2]))
        del sys.argv[1:3]
    kmeans.main()

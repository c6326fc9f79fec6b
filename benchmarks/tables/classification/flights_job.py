"""`examples/classification/logistic.py --data flights` as a job: it notes when.

::

    python flights_job.py FOLDER [the example's own options]

Each trainer leaves in FOLDER the moment of its first gradient and the moment behind its
last batch, and its processor time between them (looks at what was held out are in both).

Waits: as the example does.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "classification"
sys.path.insert(0, str(FOLDER))

import hashed  # noqa: E402  (it lies in a folder of scripts)
import logistic  # noqa: E402
import numpy as np  # noqa: E402

from paceline.launch.job.environment import ROLE  # noqa: E402


def note_moments() -> list[tuple[float, float]]:
    """Seconds and processor time, at each gradient."""
    noted: list[tuple[float, float]] = []
    differentiate = hashed.differentiate

    def differentiate_noted(*arguments: Any) -> float:  # noqa: ANN401  (as it was)
        noted.append((time.monotonic(), time.process_time()))
        return differentiate(*arguments)

    # Compiled before a clock runs.
    nothing = np.zeros(0, np.float32)
    differentiate(np.zeros((0, 8), np.int64), nothing, nothing, nothing)
    hashed.differentiate = differentiate_noted
    return noted


if __name__ == "__main__":
    folder = Path(sys.argv.pop(1))
    noted = note_moments()
    logistic.main()
    ends = [noted[0], noted[-1]] if noted else []
    (folder / f"{os.environ[ROLE]}.moments").write_text(json.dumps(ends))

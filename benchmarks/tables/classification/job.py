"""`examples/classification/logistic.py` as a job of the benchmark: it notes when.

::

    python classification_job.py FOLDER [the example's own options]

Each trainer leaves in FOLDER the moment and the processor time of its first gradient, and
of each iteration known, with its loss.

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

import logistic  # noqa: E402  (it lies in a folder of scripts)
import softmax  # noqa: E402

from paceline.launch.job.environment import ROLE  # noqa: E402


def note_moments() -> list[tuple[float, float, float]]:
    """Seconds, processor time and loss: of the first gradient (no loss), of iterations."""
    noted: list[tuple[float, float, float]] = []
    differentiate, advance = softmax.differentiate, softmax.Descent.advance

    def note(loss: float) -> None:
        noted.append((time.monotonic(), time.process_time(), loss))

    def differentiate_noted(*arguments: Any) -> softmax.Floats:  # noqa: ANN401  (as it was)
        if not noted:
            note(float("inf"))
        return differentiate(*arguments)

    def advance_noted(descent: softmax.Descent, statistics: softmax.Floats) -> None:
        advance(descent, statistics)
        note(descent.losses[-1])

    softmax.differentiate, softmax.Descent.advance = differentiate_noted, advance_noted
    return noted


if __name__ == "__main__":
    folder = Path(sys.argv.pop(1))
    noted = note_moments()
    logistic.main()
    (folder / f"{os.environ[ROLE]}.moments").write_text(json.dumps(noted))

"""A rule of one's own, on the side of a recorded script: it adds, and can be slow."""

import time
from pathlib import Path

import numpy as np

import paceline


@paceline.combine_rule("careful")
def careful(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Takes its time, once, when it is told to."""
    slow = Path("slow")
    if slow.exists():
        slow.unlink()
        time.sleep(33.0)
    return rows + values

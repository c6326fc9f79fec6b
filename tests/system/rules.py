"""A rule of one's own: bits that were set by anybody stay set."""

import numpy as np

import paceline


@paceline.combine_rule("union")
def union(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    return rows | values

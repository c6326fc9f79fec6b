"""Cells that were cut are known, until others have been cut since."""

import numpy as np

from paceline.data.cells import Cells
from paceline.trainer.tables.rotation_plan import MOST_KNOWN, KnownCells


def test_a_rotation_over_the_same_data_is_cut_once() -> None:
    known, cut = KnownCells(), []

    def cells(name: str) -> Cells:
        def make() -> Cells:
            cut.append(name)
            return Cells(np.arange(3), np.array([0, 3]))

        return known.cells(name, make)

    assert cells("a") is cells("a")
    assert cut == ["a"]
    for number in range(MOST_KNOWN):
        cells(f"other {number}")
    cells("a")
    assert cut.count("a") == 2

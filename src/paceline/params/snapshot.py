"""All that a slot holds as of one moment, while updates go on.

Dense values and optimizer state are copied when the snapshot is made; rows follow page
by page (`paceline.params.rows.snapshot`).

Pure: calls for one slot one at a time, as for its shard.
"""

from collections.abc import Mapping
from typing import final

import torch

from paceline.params.rows import RowSnapshot


@final
class SlotSnapshot:
    """One slot's moment."""

    def __init__(
        self, dense: Mapping[str, torch.Tensor], rows: Mapping[str, RowSnapshot]
    ) -> None:
        """Hold copies of dense tensors by name, and rows by the front of their names."""
        self._dense = dict(dense)
        self._rows = dict(rows)

    def copy_some(self, max_pages: int) -> bool:
        """Copy the next pages of rows, so many at most of each table.

        Returns:
            Whether nothing is left.
        """
        return all(rows.copy_some(max_pages) for rows in self._rows.values())

    def tensors(self) -> dict[str, torch.Tensor]:
        """What `ParameterShard.export` would have said at the moment; all is copied."""
        rows = {
            f"{front}/{column}": torch.from_numpy(array)
            for front, snapshot in self._rows.items()
            for column, array in snapshot.arrays().items()
        }
        return {**self._dense, **rows}

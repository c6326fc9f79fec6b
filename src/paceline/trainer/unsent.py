"""What one batch has pushed to a table, combined as it comes: id -> value.

However many pushes and pulls a batch makes, each costs what its own ids do.

Pure.
"""

from typing import final

import numpy as np

from paceline.errors import RuleFailed
from paceline.params.rows.combining import Array, combine_rows, rule_failed
from paceline.params.rows.id_map import IdMap
from paceline.params.rows.kernels import Int64s
from paceline.trainer.replica import Written


@final
class Unsent:
    """Values of one table under one rule, until they leave.

    Attributes:
        rule: by which all of them are combined with each other and with rows.
    """

    def __init__(self, table: str, first: Written) -> None:
        """Begin with what was pushed first; most batches push once."""
        self.rule = first.rule
        self._table = table
        self._ids, self._values = first.ids, first.values
        self._index: IdMap | None = None  # once there is more than one question

    def add(self, ids: Int64s, values: Array) -> None:
        """Combine values (n, dim) of distinct ids (n,) with what is here.

        Raises:
            RuleFailed: the rule did; nothing has changed.
        """
        index = self._indexed()
        rows = index.find(ids)
        is_here = rows >= 0
        if is_here.any():
            try:
                combine_rows(self.rule, self._values, rows[is_here], values[is_here])
            except RuleFailed as error:
                raise rule_failed(self._table, ids[is_here], error) from error
        if not is_here.all():
            index.find_or_insert(ids[~is_here])
            count, known = len(index), len(index) - int((~is_here).sum())
            if count > len(self._values):
                room = (max(count, 2 * len(self._values)), values.shape[1])
                grown = np.empty(room, values.dtype)
                grown[:known] = self._values[:known]
                self._values = grown
            self._values[known:count] = values[~is_here]

    def combine_with(self, ids: Int64s, values: Array) -> None:
        """Combine what is here with rows (n, dim) of distinct ids (n,), in place."""
        rows = self._indexed().find(ids)
        is_here = rows >= 0
        if is_here.any():
            own = self._values[rows[is_here]]
            combine_rows(self.rule, values, np.flatnonzero(is_here), own)

    def written(self) -> Written:
        """All of it; nothing may be added any more."""
        if self._index is None:
            return Written(self._ids, self._values, self.rule)
        return Written(self._index.ids, self._values[: len(self._index)], self.rule)

    def _indexed(self) -> IdMap:
        if self._index is None:
            self._index = IdMap()
            self._index.find_or_insert(self._ids)
            self._values = self._values.copy()  # whoever has pushed them may keep them
        return self._index

"""Some records of a source, by index: what `torch.utils.data.Subset` is of one.

Batches come from the source as whole ones, so a subset costs what its source costs.

Pure as far as the source is; called by the trainer's own thread only.
"""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from paceline.data.map_style import describe_indices
from paceline.data.source import Records, Source, require_records
from paceline.errors import UsageError


@final
class PickedSource(Source):
    """Records of another source, in an order of their own, repeated or not.

    Args:
        source: whose records they are.
        indices: of the records, whole numbers; negative ones count from the end.

    Raises:
        UsageError: no record, an index that the source has not, or a mask.
    """

    def __init__(self, source: Source, indices: Sequence[int]) -> None:
        chosen = np.asarray(indices)
        require_records(len(chosen))
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            raise UsageError(
                "batches: expected the indices of a Subset to be whole numbers, got "
                f"{chosen.dtype}; of a mask take mask.nonzero()"
            )
        size = len(source)
        outside = chosen[(chosen < -size) | (chosen >= size)]
        if outside.size:
            raise UsageError(
                f"batches: the Subset has index {outside[0]}, its data set {size} records"
            )
        chosen = chosen.astype(np.int64)
        self._source = source
        self._records = np.where(chosen < 0, chosen + size, chosen)

    def __len__(self) -> int:
        return len(self._records)

    def batch(self, records: Records) -> Any:  # noqa: ANN401
        """The batch that the source has of these."""
        return self._source.batch(self._records[records])

    def fingerprint(self) -> str:
        """The source's, and a hash of the indices: trainers must pick the same."""
        told = describe_indices(self._records.tolist())
        return f"Subset of ({self._source.fingerprint()}), {told}"

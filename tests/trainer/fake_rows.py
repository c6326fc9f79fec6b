"""Rows as they travel to and from the servers of a fake job."""

from collections.abc import Sequence

import numpy as np

from paceline.messages.shared import PartPlan
from paceline.params.codecs.named import codec_of, value_codec


def coded_rows(plan: PartPlan, values: np.ndarray) -> np.ndarray:
    """Rows as they travel."""
    codec = value_codec(codec_of(plan))
    if codec is None:
        return values
    coded = np.empty(codec.coded_row_bytes(*values.shape), np.uint8)
    codec.encode_rows(values, coded)
    return coded


def cut_ids(
    slots: Sequence[int], counts: Sequence[int], ids: np.ndarray
) -> list[tuple[int, np.ndarray]]:
    """Ids by slot, as a request lines them up."""
    ends = np.cumsum(counts)
    return [
        (slot, ids[end - count : end])
        for slot, count, end in zip(slots, counts, ends, strict=True)
    ]

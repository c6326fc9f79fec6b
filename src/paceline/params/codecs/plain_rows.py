"""Rows as they are, for codecs of dense gradients that leave them alone.

Pure.
"""

import numpy as np

from paceline.params.codecs.codec import Bytes, Float32s, require_bytes


def plain_row_bytes(rows: int, dim: int) -> int:
    """See `Codec.coded_row_bytes`."""
    return 4 * rows * dim


def encode_plain_rows(values: Float32s, coded: Bytes) -> None:
    """See `Codec.encode_rows`."""
    coded.view(np.float32).reshape(values.shape)[:] = values


def decode_plain_rows(coded: Bytes, values: Float32s) -> None:
    """See `Codec.decode_rows`.

    Raises:
        UsageError: there are more or fewer bytes than the rows have.
    """
    require_bytes(coded, values.nbytes, "rows")
    values[:] = coded.view(np.float32).reshape(values.shape)

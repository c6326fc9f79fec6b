"""Bytes of a request as checked tensors.

::

    layouts           what of a part lies here, and in which form
    contents          a request's raw buffers, read and checked; of a push, what few have
    dense             gradients of blocks in one buffer or ahead, and values
    decoding          numbers of a codec
    early_gradients   gradients that have come ahead of their push; bytes in several pieces
"""

from paceline.server.requests.decoding import (
    coded_block_bytes,
    decode_push,
)
from paceline.server.requests.dense import read_early, read_together, read_upload
from paceline.server.requests.early_gradients import (
    ComingBytes,
    EarlyGradients,
    Gradients,
)
from paceline.server.requests.layouts import PartLayout, layout_of

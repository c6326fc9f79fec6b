"""Sparse numbers: ids to servers and rows back, gradients and values out.

::

    routing          a batch's ids, by server, and the questions; gradients back to them
    embedding        `Embedding`, what the user's model holds
    embedding_rows   the rows of one embedding until the next step
    table_rows       the same for a table of the user's own
    replica          a trainer's own copy of a table
    prefetch         the next batch's ids, found before it is delivered
"""

from paceline.trainer.rows.embedding import Embedding, Mode
from paceline.trainer.rows.embedding_rows import EmbeddingRows, Expected, RowReader
from paceline.trainer.rows.prefetch import Prefetcher
from paceline.trainer.rows.replica import Replica
from paceline.trainer.rows.routing import (
    Requests,
    WantedRows,
    attaching,
    pushed_with,
    row_requests,
)
from paceline.trainer.rows.table_rows import TableRows

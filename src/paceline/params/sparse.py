"""Blocks that change by rows: those of `nn.Embedding(sparse=True)` and `EmbeddingBag`.

::

    gradient    rows    1 4         distinct, ascending, counted from the block's first row
                values  g g         (k, dim)
    changed     0 7 0 0 7 3         for each row, at which of the block's updates it changed
    since 3     rows    1 4         what a reader lacks that knows the block at update 3

Only optimizers that leave rows without a gradient as they are step on such a block; it is
`torch.optim` itself that does, with a sparse gradient. 8 bytes a row of memory say what
changed; they are no part of a cut: whoever reads after a return knows nothing yet.

Pure: one call at a time per block.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, final

import numpy as np
import torch

from paceline.messages.shared import Hyper

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int64s = np.ndarray[Any, np.dtype[np.int64]]

# What steps on rows alone, if neither momentum nor decay is on.
SPARSE_OPTIMIZERS: Final = ("SGD", "Adagrad", "SparseAdam")


class SparseGradient(NamedTuple):
    """Gradients of some rows: ``rows`` (k,) int64, ascending; ``values`` (k, dim)."""

    rows: torch.Tensor
    values: torch.Tensor

    def copy(self) -> "SparseGradient":
        """The same in memory of its own."""
        return SparseGradient(self.rows.clone(), self.values.clone())

    @classmethod
    def of(
        cls, row_bytes: Bytes, value_bytes: Bytes, dtype: torch.dtype, dim: int
    ) -> "SparseGradient":
        """The same memory, as it comes from the wire."""
        rows = torch.from_numpy(row_bytes.view(np.int64))
        if not len(rows):  # torch gives no memory without elements another dtype
            return cls(rows, torch.empty(0, dim, dtype=dtype))
        return cls(rows, torch.from_numpy(value_bytes).view(dtype).view(len(rows), dim))

    def as_torch(self, num_rows: int) -> torch.Tensor:
        """The same as torch's sparse tensor of shape (num_rows, dim), coalesced."""
        return torch.sparse_coo_tensor(
            self.rows.unsqueeze(0),
            self.values,
            (num_rows, self.values.shape[1]),
            is_coalesced=True,
            check_invariants=False,
        )


def why_not_by_rows(kind: str, hyper: Hyper) -> str | None:
    """Why an optimizer changes rows that have no gradient; None if it does not."""
    if kind not in SPARSE_OPTIMIZERS:
        return f"{kind} moves rows without a gradient, too"
    for name in ("weight_decay", "momentum"):
        if hyper.get(name):
            return f"{name} of {kind} changes rows without a gradient, too"
    return None


def sum_sparse(
    gradients: Sequence[SparseGradient], weights: Sequence[float]
) -> SparseGradient:
    """``sum of weight * gradient`` over the union of the rows, in the order given.

    New tensors; or the gradient itself when it is alone with weight 1.
    """
    assert len(gradients) == len(weights) > 0, "one weight per gradient, at least one"
    if len(gradients) == 1 and weights[0] == 1.0:
        return gradients[0]
    rows = torch.unique(torch.cat([gradient.rows for gradient in gradients]))
    total = gradients[0].values.new_zeros(len(rows), gradients[0].values.shape[1])
    for gradient, weight in zip(gradients, weights, strict=True):
        # Rows are distinct within one gradient: the order of adding is that of gradients.
        places = torch.searchsorted(rows, gradient.rows)
        total.index_add_(0, places, gradient.values, alpha=weight)
    return SparseGradient(rows, total)


@final
class RowChanges:
    """When each row of one block changed last.

    Attributes:
        count: the block's updates so far.
    """

    def __init__(self, num_rows: int) -> None:
        """No update yet; whoever knows the block at 0 knows it."""
        self.count = 0
        self._changed: Int64s = np.zeros(num_rows, np.int64)

    def note(self, rows: torch.Tensor) -> None:
        """An update has changed these rows, int64 (k,)."""
        self.count += 1
        self._changed[rows.numpy()] = self.count

    def note_all(self) -> None:
        """Every row may have changed."""
        self.count += 1
        self._changed.fill(self.count)

    def since(self, known: int | None) -> torch.Tensor | None:
        """The rows, int64 (k,), ascending, that changed after update ``known``.

        None: it is not known which; all may have. Looks at every row of the block.
        """
        if known is None or not 0 <= known <= self.count:
            return None
        return torch.from_numpy(np.flatnonzero(self._changed > known))

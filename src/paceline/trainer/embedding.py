"""`Embedding`: rows without a limit, held on the servers.

The module itself holds no parameter. A forward asks the servers for the distinct rows of
the batch and makes them a leaf of autograd's graph; a backward leaves the leaf's gradient
for the next step of the shared optimizer.

Waits: for servers, in `Embedding.forward`. The thread of the user's loop calls.
"""

from typing import Literal, final

import torch
from torch import nn
from torch.nn import functional

from paceline.config import Adagrad, RowInit, RowOptimizer, Uniform
from paceline.errors import UsageError
from paceline.messages import TableSpec
from paceline.trainer.tables import SharedTable

Mode = Literal["sum", "mean"]

_DEFAULT_OPTIMIZER = Adagrad(lr=0.05)
_DEFAULT_INIT = Uniform(0.05)


@final
class Embedding(nn.Module):
    """Like `torch.nn.Embedding`, or with ``mode`` `EmbeddingBag`, for any int64 id.

    A row is made on the servers when its id is first looked up while training; under
    `eval` an unseen id reads its initial value and no row is made. Rows have an optimizer
    of their own, whose step is that of the optimizer that `Session.share` returned.
    Two modules of one name in a job are one table. `state_dict` is empty: rows are saved
    in the job's checkpoints.

    If servers are lost, a forward waits until the job has returned to its last cut; the
    batch it belongs to then has no effect and is computed again later.

    Args:
        name: of the table, unique in the job.
        dim: values of a row.
        optimizer: how rows change. A row that a step does not touch stays as it is, its
            momentum, moments and step count too.
        init: what a new row is; a pure function of the job's seed, name and id.
        mode: ``None`` for one row per id, ``"sum"`` or ``"mean"`` over the last
            dimension of ids ``(batch, n)``.

    Raises:
        UsageError: an argument is out of range.
    """

    def __init__(
        self,
        name: str,
        dim: int,
        *,
        optimizer: RowOptimizer = _DEFAULT_OPTIMIZER,
        init: RowInit = _DEFAULT_INIT,
        mode: Mode | None = None,
    ) -> None:
        super().__init__()
        if not name:
            raise UsageError(f"Embedding: name must be a word, got {name!r}")
        if dim < 1:
            raise UsageError(f"Embedding {name!r}: dim must be at least 1, got {dim!r}")
        if not isinstance(optimizer, RowOptimizer):
            raise UsageError(
                f"Embedding {name!r}: optimizer must be a row optimizer, such as "
                f"paceline.Adam(lr=0.001), got {optimizer!r}"
            )
        if mode not in {None, "sum", "mean"}:
            raise UsageError(
                f"Embedding {name!r}: mode is None, 'sum' or 'mean', got {mode!r}"
            )
        self.spec = TableSpec(name, dim, optimizer, init)
        self.mode = mode
        self._table: SharedTable | None = None

    def bind(self, table: SharedTable) -> None:
        """Read and write this table from now on; `Session.share` calls this."""
        assert table.spec == self.spec
        self._table = table

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Look rows up.

        Args:
            ids: int64, any shape; with a mode ``(batch, n)``. May lie on any device.

        Returns:
            float32 ``(*ids.shape, dim)``, or ``(batch, dim)`` with a mode, on the device
            of ``ids``.

        Raises:
            UsageError: the module is not shared yet, or the ids are none.
            JobFailed: coordinator or servers are gone for good.
        """
        self._check(ids)
        if self._table is None:
            raise UsageError(
                f"Embedding {self.spec.name!r} is not shared yet: give the model that "
                "holds it to session.share, or make it by session.embedding"
            )
        record = self.training and torch.is_grad_enabled()
        flat = ids.detach().to("cpu").reshape(-1).contiguous().numpy()
        values, inverse = self._table.lookup(flat, record=record)
        rows, index = values.to(ids.device), inverse.to(ids.device).view(ids.shape)
        if self.mode is None:
            return functional.embedding(index, rows)
        if ids.shape[1] == 0:  # a bag of nothing is zero, and still has a gradient
            return rows.sum(0).expand(len(ids), -1)
        return functional.embedding_bag(index, rows, mode=self.mode)

    def extra_repr(self) -> str:
        """Name, dim and mode, for printing."""
        mode = "" if self.mode is None else f", mode={self.mode!r}"
        return f"{self.spec.name!r}, {self.spec.dim}{mode}"

    def _check(self, ids: object) -> None:
        name = self.spec.name
        if not isinstance(ids, torch.Tensor):
            raise UsageError(f"Embedding {name!r}: expected a tensor of ids, got {ids!r}")
        if ids.dtype != torch.int64:
            raise UsageError(
                f"Embedding {name!r}: expected int64 ids, got {ids.dtype}: call .long()"
            )
        if self.mode is not None and ids.ndim != 2:
            raise UsageError(
                f"Embedding {name!r}: mode {self.mode!r} takes ids of shape (batch, n), "
                f"got {tuple(ids.shape)}"
            )

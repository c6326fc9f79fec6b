"""`Embedding`: rows without a limit, held on the servers.

The module itself holds no parameter. A forward asks the servers for the distinct rows of
the batch and makes them a leaf of autograd's graph; a backward leaves the leaf's gradient
for the next step of the shared optimizer.

Waits: for servers, in `Embedding.forward`. The thread of the user's loop calls.
"""

import copy
from typing import Any, Literal, SupportsIndex, final

import torch
from torch import nn
from torch.nn import functional

from paceline.config import Adagrad, RowInit, RowOptimizer, Uniform
from paceline.errors import UsageError
from paceline.messages.shared import TableSpec
from paceline.params.rows import sum_duplicates
from paceline.torch_compiler import not_compiled
from paceline.trainer.rows.embedding_rows import EmbeddingRows


@final
class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:  # noqa: ANN401  (torch's context)
        ctx.places, ctx.num_rows = places, rows.shape[0]
        return torch.embedding(rows, places)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # noqa: ANN401  (torch's context)
        places = ctx.places.view(-1)
        flat = gradient.reshape(-1, gradient.shape[-1]).contiguous()
        if torch.is_grad_enabled():  # somebody wants the gradient of a gradient
            sums = flat.new_zeros(ctx.num_rows, flat.shape[1])
            return sums.index_add(0, places, flat), None
        return torch.from_numpy(
            sum_duplicates(places.numpy(), flat.numpy(), ctx.num_rows)
        ), None


def look_up(rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """``rows[places]``: float32 ``(*places.shape, dim)``, as torch's own, to the bit.

    The way back is several times as fast, since it is told that rows are few and places
    many. ``rows``: float32 ``(n, dim)``, on the CPU. ``places``: int64, any shape,
    contiguous, each in ``0..n-1``.
    """
    found: torch.Tensor = _Lookup.apply(rows, places)  # type: ignore[no-untyped-call]  # torch's door
    return found


Mode = Literal["sum", "mean"]

_DEFAULT_INIT = Uniform(0.05)
_DTYPES = {  # of ids: what an int64 can hold
    getattr(torch, name)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
}


@final
class Embedding(nn.Module):
    """Like `torch.nn.Embedding`, or with ``mode`` `EmbeddingBag`, for any int64 id.

    A row is made on the servers when its id is first looked up while training; under
    `eval` an unseen id reads its initial value and no row is made. Rows step when the
    optimizer does that `Session.share` returned.
    Two modules of one name in a job are one table. `state_dict` is empty: rows are saved
    in the job's checkpoints.

    If servers are lost, a forward waits until the job has returned to its last cut; the
    batch it belongs to then has no effect and is computed again later.

    Args:
        name: of the table, unique in the job.
        dim: values of a row.
        optimizer: how rows change, at a rate of its own. None: as the optimizer says that
            is given to `Session.share`, with its rate by now; there without one,
            ``Adagrad(lr=0.05)``. A row that a step does not touch stays as it is, its
            momentum and moments too, and does not decay.
        init: what a new row is; a pure function of the job's seed, name and id.
        mode: ``None`` for one row per id, ``"sum"`` or ``"mean"`` over the last
            dimension of ids ``(batch, n)``.
        padding_idx: an id, of any sign, that stands for nothing: it reads zeros, has no
            row and no gradient, and a ``mode`` leaves it out.

    Raises:
        UsageError: an argument is out of range.
    """

    def __init__(
        self,
        name: str,
        dim: int,
        *,
        optimizer: RowOptimizer | None = None,
        init: RowInit = _DEFAULT_INIT,
        mode: Mode | None = None,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        if not name:
            raise UsageError(f"Embedding: name must be a word, got {name!r}")
        if dim < 1:
            raise UsageError(f"Embedding {name!r}: dim must be at least 1, got {dim!r}")
        if optimizer is not None and not isinstance(optimizer, RowOptimizer):
            raise UsageError(
                f"Embedding {name!r}: optimizer must be a row optimizer, such as "
                f"paceline.Adam(lr=0.001), got {optimizer!r}"
            )
        if mode not in {None, "sum", "mean"}:
            raise UsageError(
                f"Embedding {name!r}: mode is None, 'sum' or 'mean', got {mode!r}"
            )
        self.follows = optimizer is None
        # Until it is shared: then it is the table's, whatever that has agreed on.
        self.spec = TableSpec(name, dim, optimizer or Adagrad(lr=0.05), init)
        self.mode = mode
        self.padding_idx = padding_idx
        self._table: EmbeddingRows | None = None

    def bind(self, table: EmbeddingRows) -> None:
        """Read and write this table from now on; `Session.share` calls this."""
        assert (table.spec.name, table.spec.dim) == (self.spec.name, self.spec.dim)
        self._table, self.spec = table, table.spec

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Look rows up.

        Args:
            ids: whole numbers of any sign, any shape; with a mode ``(batch, n)``. May lie
                on any device.

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
        if self.mode is None:
            return _look_up(self._table, ids, self.padding_idx, record)
        rows, index = _read(self._table, ids, self.padding_idx, record)
        padding = None if self.padding_idx is None else len(rows) - 1
        if ids.shape[1] == 0:  # a bag of nothing is zero, and still has a gradient
            return rows.sum(0).expand(len(ids), -1)
        return functional.embedding_bag(index, rows, mode=self.mode, padding_idx=padding)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Embedding":
        """Another module that reads the same table, as an average of the model needs."""
        made = Embedding.__new__(Embedding)
        memo[id(self)] = made
        for name, value in vars(self).items():
            vars(made)[name] = copy.deepcopy(value, memo)
        return made

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Pickled as a description; refused once there are rows, which lie elsewhere.

        Raises:
            UsageError: the module is shared.
        """
        if self._table is not None:
            raise UsageError(
                f"Embedding {self.spec.name!r} cannot be pickled (torch.save(model)): its "
                "rows lie on the servers; keep torch.save(model.state_dict()), which has "
                "the dense parameters, and write the rows by paceline checkpoint export"
            )
        return super().__reduce_ex__(protocol)

    def extra_repr(self) -> str:
        """Name, dim and mode, for printing."""
        mode = "" if self.mode is None else f", mode={self.mode!r}"
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.spec.name!r}, {self.spec.dim}{mode}{padding}"

    def _check(self, ids: object) -> None:
        name = self.spec.name
        if not isinstance(ids, torch.Tensor):
            raise UsageError(f"Embedding {name!r}: expected a tensor of ids, got {ids!r}")
        if ids.dtype is torch.uint64:
            raise UsageError(
                f"Embedding {name!r}: ids are int64, and uint64 has others: call "
                ".view(torch.int64), which keeps them apart"
            )
        if ids.dtype not in _DTYPES:
            raise UsageError(
                f"Embedding {name!r}: expected ids that are whole numbers, got "
                f"{ids.dtype}: call .long()"
            )
        if self.mode is not None and ids.ndim != 2:
            raise UsageError(
                f"Embedding {name!r}: mode {self.mode!r} takes ids of shape (batch, n), "
                f"got {tuple(ids.shape)}"
            )


def _find(
    table: EmbeddingRows, ids: torch.Tensor, padding: int | None, record: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ask the servers for the rows of ids; back on the device of the ids.

    ``rows`` (distinct ids, dim), with padding one more, of zeros; ``places`` of the ids'
    shape: ``rows[places]`` are theirs.
    """
    rows, index = table.lookup(ids, padding=padding, record=record)
    if padding is not None:
        inverse, is_real = index, ids.detach().to("cpu").reshape(-1) != padding
        index = torch.full((ids.numel(),), len(rows))
        index[is_real] = inverse
        rows = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
    if not ids.is_cpu:
        rows, index = rows.to(ids.device), index.to(ids.device)
    return rows, index.view(ids.shape)


_read = not_compiled(_find)


@not_compiled
def _look_up(
    table: EmbeddingRows, ids: torch.Tensor, padding: int | None, record: bool
) -> torch.Tensor:
    """The rows of ids in the ids' own places."""
    rows, index = _find(table, ids, padding, record)
    if rows.is_cpu and padding is None:
        return look_up(rows, index)
    last = None if padding is None else len(rows) - 1
    return functional.embedding(index, rows, padding_idx=last)

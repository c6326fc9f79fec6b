"""`Embedding`: rows without a limit, held on the servers.

The module itself holds no parameter. A forward asks the servers for the distinct rows of
the batch and is a node of autograd's graph that nothing lies behind; a backward through it
leaves the rows' gradient for the next step of the shared optimizer.

Waits: for servers, in `Embedding.forward`. The thread of the user's loop calls.
"""

import copy
from typing import Any, Final, Literal, SupportsIndex, final

import torch
from torch import nn
from torch.nn import functional

from paceline.config import Adagrad, RowInit, RowOptimizer, Uniform
from paceline.errors import UsageError
from paceline.messages.shared import TableSpec
from paceline.params.rows import sum_duplicates
from paceline.torch_compiler import not_compiled
from paceline.trainer.rows.embedding_rows import EmbeddingRows, Found

# A node of the graph has an input with a gradient. Rows are no leaf of it: that and a hook
# there would cost more than the node.
_ANCHOR: Final = torch.empty(0, device="cpu", requires_grad=True)


@final
class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, _: torch.Tensor, found: Found) -> torch.Tensor:  # noqa: ANN401  (torch's context)
        ctx.record = found.record
        ctx.set_materialize_grads(False)
        return found.rows

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> tuple[None, None]:  # noqa: ANN401  (torch's context)
        if gradient is not None:
            ctx.record(gradient.detach().contiguous())
        return None, None


@final
class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, _: torch.Tensor, found: Found) -> torch.Tensor:  # noqa: ANN401  (torch's context)
        ctx.found = found
        return torch.embedding(found.rows, found.places)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, None]:  # noqa: ANN401  (torch's context)
        rows, places, record = ctx.found
        num_rows, dim = rows.shape
        flat = gradient.detach().reshape(-1, dim).contiguous().numpy()
        sums = sum_duplicates(places.view(-1).numpy(), flat, num_rows)
        record(torch.from_numpy(sums))
        return None, None


def look_up(found: Found) -> torch.Tensor:
    """``rows[places]``: float32 ``(*places.shape, dim)``, as torch's own, to the bit.

    Each backward records the gradient of the rows. It is several times as fast as torch's,
    since it is told that rows are few and places many. Rows lie on the CPU; places have any
    shape, and are contiguous.
    """
    if found.record is None:
        return torch.embedding(found.rows, found.places)
    values: torch.Tensor = _Lookup.apply(_ANCHOR, found)  # type: ignore[no-untyped-call]  # torch's door
    return values


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


@not_compiled
def _read(
    table: EmbeddingRows, ids: torch.Tensor, padding: int | None, record: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ask the servers for the rows of ids; see `_placed`."""
    return _placed(table.lookup(ids, padding=padding, record=record), ids, padding)


@not_compiled
def _look_up(
    table: EmbeddingRows, ids: torch.Tensor, padding: int | None, record: bool
) -> torch.Tensor:
    """The rows of ids in the ids' own places."""
    found = table.lookup(ids, padding=padding, record=record)
    if padding is None and ids.is_cpu:
        return look_up(found)
    rows, index = _placed(found, ids, padding)
    last = None if padding is None else len(rows) - 1
    return functional.embedding(index, rows, padding_idx=last)


def _placed(
    found: Found, ids: torch.Tensor, padding: int | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows in the graph, and for each id which of them is its own, on the ids' device.

    With padding there is one row more, of zeros.
    """
    rows, index, record = found
    if record is not None:
        rows = _Rows.apply(_ANCHOR, found)  # type: ignore[no-untyped-call]  # torch's door
    if padding is not None:
        inverse, is_real = index, ids.detach().to("cpu").reshape(-1) != padding
        index = torch.full((ids.numel(),), len(rows))
        index[is_real] = inverse
        rows = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
    return rows.to(ids.device), index.to(ids.device).view(ids.shape)

"""Rows to the places of a batch, and the gradients of places back to their rows.

What `torch.nn.functional.embedding` computes, to the bit; the way back is several times as
fast, since it is told that rows are few and places many.

Pure.
"""

from typing import Any, cast, final

import torch

from paceline.params.rows.slots import sum_duplicates


@final
class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:  # noqa: ANN401  (torch's context)
        ctx.places, ctx.num_rows = places, len(rows)
        return rows.index_select(0, places.view(-1)).view(*places.shape, rows.shape[1])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # noqa: ANN401  (torch's context)
        places = ctx.places.view(-1)
        flat = gradient.reshape(len(places), gradient.shape[-1]).contiguous()
        if torch.is_grad_enabled():  # somebody wants the gradient of a gradient
            sums = flat.new_zeros(ctx.num_rows, flat.shape[1])
            return sums.index_add(0, places, flat), None
        return torch.from_numpy(
            sum_duplicates(places.numpy(), flat.numpy(), ctx.num_rows)
        ), None


def look_up(rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """``rows[places]``: float32 ``(*places.shape, dim)``.

    Args:
        rows: float32 ``(n, dim)``, on the CPU.
        places: int64, any shape, contiguous, each in ``0..n-1``.
    """
    return cast("torch.Tensor", _Lookup.apply(rows, places))  # type: ignore[no-untyped-call]  # torch's door

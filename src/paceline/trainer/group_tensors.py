"""Dense numbers between the ranks of one trainer: `torch.distributed`, over loopback.

::

    reduce      gradients of all ranks, weighted, add up at rank 0
    broadcast   parameters of rank 0 become everybody's

Values travel in one flat tensor for each dtype, on the CPU (Gloo). Ranks find each other
by a file, which is removed once they have.

Waits: for all other ranks to make the same call, `WAIT_S` at most; a rank that dies breaks
it at once.
"""

import contextlib
import datetime as dt
import os
import sys
from collections.abc import Sequence
from typing import final

import torch
from torch import distributed

from paceline.errors import PeerLost, UsageError
from paceline.trainer.group_wire import GroupPlace

WAIT_S = 120.0  # all have said that they come; so this is for copying and adding

_HALVES = {torch.float16, torch.bfloat16}


@final
class GroupTensors:
    """One rank's end of the collectives."""

    def __init__(self, place: GroupPlace) -> None:
        """Meet the other ranks.

        Raises:
            UsageError: the script has a process group of its own.
            PeerLost: another rank did not come.
        """
        if distributed.is_initialized():
            raise UsageError(
                "--ranks-per-trainer makes torch.distributed's process group for the ranks "
                "of a trainer: leave init_process_group out of the script"
            )
        shown = sys.excepthook  # torch puts its own in its place, and words in every line
        try:
            distributed.init_process_group(
                "gloo",
                store=distributed.FileStore(  # type: ignore[attr-defined]  # torch's door
                    place.rendezvous, place.size
                ),
                rank=place.number,
                world_size=place.size,
                timeout=dt.timedelta(seconds=WAIT_S),
            )
            distributed.barrier()
            sys.excepthook = shown
        except RuntimeError as error:
            raise PeerLost(f"the ranks of {place.role} do not meet: {error}") from error
        if place.number == 0:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place.rendezvous)

    def reduce(
        self,
        tensors: Sequence[torch.Tensor | None],
        like: Sequence[torch.Tensor],
        weight: float,
    ) -> list[torch.Tensor]:
        """Add tensors up over all ranks, each times its rank's weight.

        Args:
            tensors: on the CPU, contiguous; None stands for zeros.
            like: of the same shapes and dtypes, the same in every rank.
            weight: of this rank.

        Returns:
            In rank 0 the sums; elsewhere nothing that means anything.
        """
        found: dict[int, torch.Tensor] = {}
        for dtype in _dtypes(like):
            indices = [i for i, tensor in enumerate(like) if tensor.dtype == dtype]
            wide = torch.float32 if dtype in _HALVES else dtype
            pieces = [_scaled(tensors[i], like[i], wide, weight) for i in indices]
            flat = torch.cat(pieces)
            self._collect(lambda flat=flat: distributed.reduce(flat, 0))
            sizes = [like[i].numel() for i in indices]
            for i, piece in zip(indices, torch.split(flat, sizes), strict=True):
                found[i] = piece.view(like[i].shape).to(dtype)
        return [found[i] for i in range(len(like))]

    def broadcast(self, parameters: Sequence[torch.Tensor], *, is_leader: bool) -> None:
        """Let tensors have the values that they have in rank 0, in place."""
        for dtype in _dtypes(parameters):
            chosen = [p for p in parameters if p.dtype == dtype]
            flat = torch.cat([p.detach().reshape(-1).cpu() for p in chosen])
            # Bytes: nothing is added, so any dtype will do.
            self._collect(
                lambda flat=flat: distributed.broadcast(flat.view(torch.uint8), 0)
            )
            if is_leader:
                continue
            sizes = [p.numel() for p in chosen]
            with torch.no_grad():
                for p, piece in zip(chosen, torch.split(flat, sizes), strict=True):
                    p.copy_(piece.view(p.shape))

    def _collect(self, collective: object) -> None:
        try:
            collective()  # type: ignore[operator]
        except RuntimeError as error:
            raise PeerLost(f"another rank of this trainer is gone: {error}") from error


def _dtypes(tensors: Sequence[torch.Tensor]) -> list[torch.dtype]:
    return list(dict.fromkeys(tensor.dtype for tensor in tensors))


def _scaled(
    tensor: torch.Tensor | None, like: torch.Tensor, dtype: torch.dtype, weight: float
) -> torch.Tensor:
    if tensor is None:
        return torch.zeros(like.numel(), dtype=dtype)
    return tensor.reshape(-1).to(dtype) * weight

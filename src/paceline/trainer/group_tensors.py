"""Dense numbers between the ranks of one trainer: `torch.distributed`, over loopback.

::

    reduce      gradients of all ranks, weighted, add up at the rank whose share they are
    broadcast   parameters of the rank whose share they are become everybody's

Values travel in one flat tensor for each rank's share and dtype, all at once, on the CPU
(Gloo). Ranks find each other by a file, which is removed once they have.

Waits: for all other ranks to make the same call, `WAIT_S` at most; a rank that dies breaks
it at once.
"""

import contextlib
import datetime as dt
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, final

import torch
from torch import distributed

from paceline.errors import PeerLost, UsageError
from paceline.trainer.group_shares import Piece, Shares
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
        self._number = place.number
        if place.number == 0:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place.rendezvous)

    def reduce(
        self,
        tensors: Sequence[torch.Tensor | None],
        like: Sequence[torch.Tensor],
        weight: float,
        shares: Shares,
    ) -> list[torch.Tensor | None]:
        """Add tensors up over all ranks, each times its rank's weight.

        Args:
            tensors: on the CPU, contiguous; None stands for zeros.
            like: of the same shapes and dtypes, the same in every rank.
            weight: of this rank.
            shares: which sums each rank gets, the same in every rank.

        Returns:
            Of the shapes of ``like``: the sums that are this rank's, and zeros; None where
            none of a tensor is.
        """
        flat = [_scaled(*both, weight) for both in zip(tensors, like, strict=True)]
        bundles = _bundles([one.dtype for one in flat], shares)
        sums = [_together(flat, bundle.pieces) for bundle in bundles]
        self._collect(
            partial(distributed.reduce, total, bundle.holder, async_op=True)
            for bundle, total in zip(bundles, sums, strict=True)
        )
        found: dict[int, torch.Tensor] = {}
        for bundle, total in zip(bundles, sums, strict=True):
            if bundle.holder == self._number:
                for piece, values in _apart(total, bundle.pieces):
                    if len(values) == len(flat[piece.place]):
                        found[piece.place] = values
                        continue
                    if piece.place not in found:
                        found[piece.place] = torch.zeros_like(flat[piece.place])
                    found[piece.place][piece.start : piece.stop] = values
        return [
            found[i].view(one.shape).to(one.dtype) if i in found else None
            for i, one in enumerate(like)
        ]

    def broadcast(self, parameters: Sequence[torch.Tensor], shares: Shares) -> None:
        """Let tensors have everywhere, in place, the values of the rank that holds them.

        Args:
            parameters: of the same shapes and dtypes in every rank.
            shares: which values each rank holds, the same in every rank.
        """
        bundles = _bundles([one.dtype for one in parameters], shares)
        own = [p.detach().reshape(-1) for p in parameters]
        values = [
            _together(own, bundle.pieces).cpu()
            if bundle.holder == self._number
            else torch.empty(_num_elements(bundle.pieces), dtype=bundle.dtype)
            for bundle in bundles
        ]
        raw = [flat.view(torch.uint8) for flat in values]  # any dtype: nothing is added
        self._collect(
            partial(distributed.broadcast, flat, bundle.holder, async_op=True)
            for bundle, flat in zip(bundles, raw, strict=True)
        )
        with torch.no_grad():
            for bundle, flat in zip(bundles, values, strict=True):
                if bundle.holder == self._number:
                    continue
                for piece, part in _apart(flat, bundle.pieces):
                    parameter = parameters[piece.place]
                    if len(part) == parameter.numel():
                        parameter.copy_(part.view(parameter.shape))
                    else:
                        _write(parameter, piece, part)

    def _collect(self, collectives: Iterable[Callable[[], Any]]) -> None:
        """Run all at once, and wait for them."""
        try:
            for work in [collective() for collective in collectives]:
                work.wait()
        except RuntimeError as error:
            raise PeerLost(f"another rank of this trainer is gone: {error}") from error


class _Bundle(NamedTuple):
    """What travels as one tensor: pieces of one dtype that one rank holds."""

    holder: int
    dtype: torch.dtype
    pieces: list[Piece]


def _bundles(dtypes: Sequence[torch.dtype], shares: Shares) -> list[_Bundle]:
    """In an order that is the same in every rank."""
    found: dict[tuple[int, torch.dtype], list[Piece]] = {}
    for holder in sorted(shares):
        for piece in shares[holder]:
            found.setdefault((holder, dtypes[piece.place]), []).append(piece)
    return [_Bundle(holder, dtype, pieces) for (holder, dtype), pieces in found.items()]


def _together(flat: Sequence[torch.Tensor], pieces: Sequence[Piece]) -> torch.Tensor:
    return torch.cat([flat[piece.place][piece.start : piece.stop] for piece in pieces])


def _apart(
    flat: torch.Tensor, pieces: Sequence[Piece]
) -> Iterator[tuple[Piece, torch.Tensor]]:
    sizes = [piece.stop - piece.start for piece in pieces]
    yield from zip(pieces, torch.split(flat, sizes), strict=True)


def _num_elements(pieces: Sequence[Piece]) -> int:
    return sum(piece.stop - piece.start for piece in pieces)


def _write(parameter: torch.Tensor, piece: Piece, values: torch.Tensor) -> None:
    """Write some elements of a tensor, whatever its layout: a block is of whole rows."""
    if parameter.is_contiguous():
        parameter.view(-1)[piece.start : piece.stop] = values
    else:
        width = parameter.numel() // len(parameter)
        rows = slice(piece.start // width, piece.stop // width)
        parameter[rows] = values.view(-1, *parameter.shape[1:])


def _scaled(tensor: torch.Tensor | None, like: torch.Tensor, weight: float) -> torch.Tensor:
    dtype = torch.float32 if like.dtype in _HALVES else like.dtype
    if tensor is None:
        return torch.zeros(like.numel(), dtype=dtype)
    return tensor.reshape(-1).to(dtype) * weight

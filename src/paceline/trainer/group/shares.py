"""Which rank of a trainer talks to which server for a part's dense blocks.

::

    servers of the part's blocks    s0  s1  s2  s3        a trainer of two ranks
    rank                             1   0   1   0        the last server is the leader's

A rank's share is all blocks on its servers: a server hears a push from one rank, as from
any trainer, so each slot belongs to one rank, and a window is one push at each server.

Small parts are the leader's alone: a question by way of another rank costs more than it
takes off. So are parts with sparse gradients, those whose pushes overlap, and those whose
codec keeps what it leaves out, since that would have to follow the push from rank to rank.

Pure.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from paceline.messages.shared import PartPlan
from paceline.pace.policy import pushes_overlap
from paceline.params.blocks import dtype_bytes
from paceline.params.codecs import codec_of

LEAST_BYTES = 4 << 20  # of a part at each server; the design note has the measurement


class ElementSpan(NamedTuple):
    """Elements ``start..stop`` (half open, flat) of the tensor at ``place`` of several."""

    place: int
    start: int
    stop: int


Shares = Mapping[int, Sequence[ElementSpan]]
"""{rank: what it holds}; every element belongs to one rank."""


def speakers(plan: PartPlan, size: int, least_bytes: int = LEAST_BYTES) -> dict[str, int]:
    """Who talks to the servers that hold a part's blocks, in a trainer of ``size`` ranks.

    Returns:
        ``{server: rank}``; nothing if the leader talks to all, as where one of the servers
        holds less than ``least_bytes``.
    """
    held: dict[str, int] = {}
    for block in plan.blocks:
        server = plan.placement[block.slot]
        dtype = plan.spec.parameters[block.parameter].dtype
        taken = (block.stop - block.start) * dtype_bytes(dtype)
        held[server] = held.get(server, 0) + taken
    if len(held) < 2 or min(held.values()) < least_bytes or _is_whole(plan):
        return {}
    # Backwards: a driver hears the last server first, so the leader is at its own work
    # while the others are at theirs.
    backwards = sorted(held, reverse=True)
    return {server: place % size for place, server in enumerate(backwards)}


def shares(
    plan: PartPlan, speaking: Mapping[str, int], parameters: Sequence[int]
) -> Shares:
    """What each rank holds of these parameters of a part, which pieces count as places.

    ``speaking`` is of `speakers`; where it says nothing, the leader holds all.
    """
    places = {parameter: place for place, parameter in enumerate(parameters)}
    found: dict[int, list[ElementSpan]] = {}
    for block in plan.blocks:
        if block.parameter in places:
            holder = speaking.get(plan.placement[block.slot], 0)
            piece = ElementSpan(places[block.parameter], block.start, block.stop)
            found.setdefault(holder, []).append(piece)
    return found


def whole(tensors: Sequence[torch.Tensor]) -> Shares:
    """The leader holds all of these."""
    return {0: [ElementSpan(i, 0, tensor.numel()) for i, tensor in enumerate(tensors)]}


def _is_whole(plan: PartPlan) -> bool:
    codec = codec_of(plan)
    return (
        any(spec.has_sparse_gradients for spec in plan.spec.parameters)
        or pushes_overlap(plan.spec.pace)
        or (codec is not None and codec.keeps_rest)
    )

"""A model that is stepped here, as the parts that it is shared as: whole, or in fragments.

Pure.
"""

import math

import torch

from paceline.config import Pace
from paceline.errors import UsageError
from paceline.pace.fragments import cut_fragments, fragments_of, mix_of
from paceline.params.blocks import dtype_bytes
from paceline.trainer.deltas import Deltas
from paceline.trainer.describing import Described


def cut_local(
    described: Described, optimizer: torch.optim.Optimizer, pace: Pace
) -> list[tuple[Described, Deltas]]:
    """The parts of a model, in the order of their turns, and how each moves here.

    Of fragments the first takes the steps of all, since they have one optimizer.

    Raises:
        UsageError: there are fewer parameters than fragments.
    """
    count = fragments_of(pace)
    if count > len(described.specs):
        raise UsageError(
            f"share: {pace} cuts a model into {count} fragments of whole parameters, and "
            f"this one has {len(described.specs)}: fragments is to be at most that"
        )
    sizes = [math.prod(one.shape) * dtype_bytes(one.dtype) for one in described.specs]
    found: list[tuple[Described, Deltas]] = []
    for indices in cut_fragments(sizes, count):
        parameters = tuple(described.parameters[i] for i in indices)
        specs = tuple(described.specs[i] for i in indices)
        deltas = Deltas(parameters, None if found else optimizer, mix=mix_of(pace))
        piece = described._replace(parameters=parameters, specs=specs)
        # What the model has beside them is the first one's.
        frozen = None if found else described.frozen
        found.append((piece._replace(frozen=frozen), deltas))
    return found

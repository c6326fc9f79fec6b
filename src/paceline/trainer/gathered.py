"""What a window's gradients come to, before they are cut for servers.

Pure.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch

from paceline.trainer.routing import RowGradient


class Gradients(NamedTuple):
    """What a window's gradients come to, in one process or in all of a trainer."""

    dense: dict[int, torch.Tensor]  # {parameter index: gradient}, sparse ones too
    rows: dict[str, list[RowGradient]]  # {table name: in the order of lookups}
    is_refused: bool = False  # they are not to be used


class Gathering(NamedTuple):
    """Which gradients a push takes; see `PartNumbers.gather`."""

    with_step: bool
    only_fresh: bool


Join = Callable[[Gradients, Gathering], Gradients]
"""What this process has -> what all processes of the trainer have together."""


def alone(gradients: Gradients, gathering: Gathering) -> Gradients:
    """A trainer of one process has what that process has."""
    del gathering
    return gradients

"""Imported before processes are forked: servers change blocks by halves, with a pause.

What is hard to meet between two instructions lasts milliseconds then.
"""

import time
from collections.abc import Mapping

import torch

from paceline.messages.shared import Hyper
from paceline.params.bundle import Bundle

PAUSE_S = 0.004

_apply = Bundle.apply


def apply_by_halves(
    bundle: Bundle, gradients: Mapping[int, torch.Tensor], hyper: Hyper
) -> None:
    """A step of which the second half of the values of each block comes late."""
    halves = [
        bundle.blocks[slot].values[gradient.numel() // 2 :]
        for slot, gradient in gradients.items()
    ]
    before = [half.clone() for half in halves]
    _apply(bundle, gradients, hyper)
    after = [half.clone() for half in halves]
    for half, old in zip(halves, before, strict=True):
        half.copy_(old)
    time.sleep(PAUSE_S)
    for half, new in zip(halves, after, strict=True):
        half.copy_(new)


Bundle.apply = apply_by_halves  # type: ignore[method-assign]

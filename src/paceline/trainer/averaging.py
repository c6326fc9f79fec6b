"""Averages of buffers over trainers, weighted by the records that each has trained.

``x = sum_i n_i x_i / sum_i n_i``, summed in float64 in the order given: buffers that are
equal in float32 or less stay so to the bit, and one alone is taken as it is. Whole numbers
(BatchNorm's ``num_batches_tracked``) are the greatest of all; anything else is the first's.

Pure.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from paceline.errors import UsageError
from paceline.trainer.state_codec import decode_state

States = dict[str, dict[str, Tensor]]  # {name of a tracked object: {buffer: value}}


def average_states(encoded: Sequence[bytes], weights: Sequence[int]) -> States:
    """The average of encoded states of averaged objects; empty if there are none.

    Args:
        encoded: what `Tracker.encode_averaged` made, in several trainers.
        weights: of each, at least 1.

    Raises:
        CheckpointCorrupt: these are no encoded states.
        UsageError: a buffer is of another shape in another trainer, or is not there.
    """
    states: list[Any] = [decode_state(data) for data in encoded]
    if not states:
        return {}
    for state in states[1:]:
        _check_alike(states[0], state)
    return {
        name: {
            buffer: average([state[name][buffer] for state in states], weights)
            for buffer in buffers
        }
        for name, buffers in states[0].items()
    }


def _check_alike(one: States, other: States) -> None:
    """No average makes sense of buffers that trainers have grown apart."""
    for name, buffers in one.items():
        there = other.get(name, {})
        for buffer in sorted(buffers.keys() | there.keys()):
            shapes = [
                tuple(state[buffer].shape) if buffer in state else "none"
                for state in (buffers, there)
            ]
            if shapes[0] != shapes[1]:
                raise UsageError(
                    f"the buffer {buffer!r} ({name}) has the shape {shapes[0]} in one "
                    f"trainer and {shapes[1]} in another when the loop ends, and float "
                    f"buffers are averaged then: give it one size in all trainers, or "
                    f"register it with persistent=False"
                )


def average(values: Sequence[Tensor], weights: Sequence[int]) -> Tensor:
    """One buffer of several trainers, of one shape and dtype; a new tensor."""
    first = values[0]
    if len(values) == 1:
        return first.clone()
    if first.is_floating_point():
        total = torch.zeros_like(first, dtype=torch.float64)
        for value, weight in zip(values, weights, strict=True):
            total += weight * value.double()
        return (total / sum(weights)).to(first.dtype)
    if first.is_complex() or first.dtype is torch.bool:
        return first.clone()
    return torch.stack(list(values)).amax(dim=0)

"""A part's numbers under the pace that its plan says, whatever they began with.

Called when a trainer has shared a part or joined again: nothing is on its way then. The
state of an optimizer that has stepped here is dropped with local steps, and one that is to
step here begins without.

The thread of the user's loop calls.
"""

import logging

import torch

from paceline.messages.shared import PartSpec
from paceline.messages.trainer import Joined
from paceline.pace.policy import outer_step, pushes_overlap, steps_locally
from paceline.trainer.tensors.backward_overlap import why_not_early
from paceline.trainer.tensors.local_steps import Deltas
from paceline.trainer.tensors.part_tensors import PartTensors

_log = logging.getLogger("paceline.trainer")


def has_lost(before: Joined, joined: Joined) -> bool:
    """Whether a trainer that has joined again lacks what it had sent before."""
    is_same = joined.incarnation == before.incarnation
    return not is_same or joined.returned > before.timeline


def take_pace(numbers: PartTensors, spec: PartSpec, *, is_lost: bool = False) -> None:
    """Let numbers be pushed and pulled as the pace of ``spec`` says; again, no change.

    ``is_lost``: what a codec has left out, and own steps, are of an abandoned future.
    """
    if is_lost:
        numbers.forget_left_out()
    if numbers.pace == spec.pace:
        return
    dropped = " (the state of its optimizer is dropped)" if numbers.deltas else ""
    _log.info("part %d: %s instead of %s%s", spec.part, spec.pace, numbers.pace, dropped)
    numbers.follow_pace(spec.pace)
    for memory in numbers.memory:
        memory.is_apart = pushes_overlap(spec.pace)
    if numbers.early is not None:
        reason = why_not_early(spec.pace, numbers.parameters, processes=1)
        numbers.early.is_on = reason is None
    optimizer = numbers.optimizer
    if optimizer is not None:
        _take_steps(numbers, spec, optimizer)


def _take_steps(
    numbers: PartTensors, spec: PartSpec, optimizer: torch.optim.Optimizer
) -> None:
    """Whose steps they are, and what hyper-parameters go along with a push."""
    if not steps_locally(spec.pace):
        if numbers.deltas is not None:
            numbers.deltas.forget()
        numbers.deltas, numbers.groups = None, optimizer.param_groups
        return
    assert spec.optimizer is not None
    numbers.groups = [outer_step(spec.pace)] * len(spec.optimizer.groups)
    if numbers.deltas is None:
        numbers.deltas = Deltas(numbers.parameters, optimizer)
    else:
        numbers.deltas.forget()

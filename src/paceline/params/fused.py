"""A step of Adam or AdamW by torch's fused kernel alone.

`torch.optim.Adam.step` calls the same kernel with the same arguments, but looks at every
option anew first: 20 microseconds a block, of which the kernel needs two where the block is
small. A server that holds a network of many small blocks pays them for each, at every push.

Pure: one call at a time per block. Source: `torch.optim.adam._fused_adam` of torch 2.10.
"""

from collections.abc import Mapping
from typing import Any

import torch


def can_step(group: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Whether `step` does what the optimizer's own one would.

    Not before that has made the state, nor where options ask for more than the kernel.

    Args:
        group: the optimizer's only parameter group.
        state: of its only parameter, shape (n,), on the CPU.
    """
    return bool(
        state
        and group.get("fused")
        and "decoupled_weight_decay" in group  # Adam and what is made of it
        and not group["amsgrad"]
        and not isinstance(group["lr"], torch.Tensor)
    )


def step(
    values: torch.Tensor,
    gradient: torch.Tensor,
    group: Mapping[str, Any],
    state: Mapping[str, Any],
) -> None:
    """Take one step: values and state change in place, to the bit as torch does it.

    Args:
        values: shape (n,), without autograd.
        gradient: of the same shape and dtype; read, not kept.
        group: see `can_step`, which must hold.
        state: ``step``, ``exp_avg``, ``exp_avg_sq``, as torch made them.
    """
    beta1, beta2 = group["betas"]
    torch._foreach_add_([state["step"]], 1)
    is_decoupled = group["decoupled_weight_decay"]
    kernel: Any = torch._fused_adamw_ if is_decoupled else torch._fused_adam_
    kernel(
        [values],
        [gradient],
        [state["exp_avg"]],
        [state["exp_avg_sq"]],
        [],
        [state["step"]],
        amsgrad=False,
        lr=group["lr"],
        beta1=beta1,
        beta2=beta2,
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=group["maximize"],
    )

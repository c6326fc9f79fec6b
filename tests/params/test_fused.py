"""The kernel alone is used where it does all that the optimizer would."""

from typing import Any

import pytest
import torch

from paceline.params.dense import can_step_alone, step_alone


def _stepped(**options: Any) -> tuple[torch.Tensor, torch.optim.Optimizer]:
    values = torch.linspace(-1, 1, 5)
    optimizer = torch.optim.Adam([values], lr=0.1, **options)
    values.grad = torch.ones(5)
    optimizer.step()
    return values, optimizer


@pytest.mark.parametrize("options", [{}, {"decoupled_weight_decay": True}], ids=str)
def test_the_kernel_alone_takes_the_optimizers_step(options: dict[str, Any]) -> None:
    values, optimizer = _stepped(fused=True, weight_decay=0.1, **options)
    mine, own = _stepped(fused=True, weight_decay=0.1, **options)
    group, state = own.param_groups[0], own.state[mine]
    assert can_step_alone(group, state)
    gradient = torch.linspace(2, 3, 5)
    values.grad = gradient.clone()
    optimizer.step()
    step_alone(mine, gradient, group, state)
    assert torch.equal(mine, values)
    for name, expected in optimizer.state[values].items():
        assert torch.equal(state[name], expected)
    assert torch.equal(gradient, torch.linspace(2, 3, 5))


@pytest.mark.parametrize(
    "options", [{"fused": False}, {"fused": True, "amsgrad": True}], ids=str
)
def test_an_optimizer_that_does_more_steps_itself(options: dict[str, Any]) -> None:
    values, optimizer = _stepped(**options)
    assert not can_step_alone(optimizer.param_groups[0], optimizer.state[values])


def test_the_optimizer_makes_its_state_itself() -> None:
    optimizer = torch.optim.Adam([torch.zeros(1)], fused=True)
    assert not can_step_alone(optimizer.param_groups[0], {})


def test_an_optimizer_of_another_kind_steps_itself() -> None:
    values = torch.zeros(1)
    optimizer = torch.optim.Adagrad([values], fused=True)
    assert not can_step_alone(optimizer.param_groups[0], optimizer.state[values])

"""Delayed Nesterov is what the paper's algorithm says, and stays so over a cut."""

import pytest
import torch

from paceline.params.delayed import DelayedNesterov
from paceline.params.dense import OptimizeBlock

LR, BETA = 0.7, 0.9


def gradients(count: int) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(count)
    return [torch.randn(6, generator=draw, dtype=torch.float64) for _ in range(count)]


def by_the_paper(delay: int, found: list[torch.Tensor]) -> torch.Tensor:
    """Algorithm 3 of 2401.09135 with c = 0, in its letters."""
    theta = torch.zeros(6, dtype=torch.float64)
    m, delta = torch.zeros_like(theta), torch.zeros_like(theta)
    for t, g in enumerate(found):
        delta = delta + g
        if (t + 1) % delay == 0:
            m = BETA * m + delta / delay
            theta = theta - LR * (BETA * m + g / delay)
            delta = torch.zeros_like(theta)
        else:
            theta = theta - LR * g / delay
    return theta


@pytest.mark.parametrize("delay", [1, 2, 4, 7])
def test_it_is_the_papers_algorithm(delay: int) -> None:
    hyper = {"lr": LR, "momentum": BETA, "delay": delay}
    block = OptimizeBlock(torch.zeros(6, dtype=torch.float64), "DelayedNesterov", hyper)
    found = gradients(17)
    for gradient in found:
        block.apply(gradient, hyper)
    torch.testing.assert_close(block.values, by_the_paper(delay, found), rtol=0, atol=1e-12)


def test_without_delay_it_is_torchs_nesterov() -> None:
    ours = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    theirs = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    one = DelayedNesterov([ours], lr=LR, momentum=BETA, delay=1)
    two = torch.optim.SGD([theirs], lr=LR, momentum=BETA, nesterov=True)
    for gradient in gradients(9):
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        one.step()
        two.step()
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_a_cut_in_the_middle_of_a_delay_changes_nothing() -> None:
    hyper = {"lr": LR, "momentum": BETA, "delay": 4}
    whole = OptimizeBlock(torch.zeros(6, dtype=torch.float64), "DelayedNesterov", hyper)
    found = gradients(11)
    for gradient in found[:6]:
        whole.apply(gradient, hyper)
    kept = {name: value.clone() for name, value in whole.state().items()}
    again = OptimizeBlock(whole.values.clone(), "DelayedNesterov", hyper)
    again.load(kept)
    for gradient in found[6:]:
        whole.apply(gradient, hyper)
        again.apply(gradient, hyper)
    assert torch.equal(whole.values, again.values)
    assert kept.keys() == {"step", "momentum", "buffer"}

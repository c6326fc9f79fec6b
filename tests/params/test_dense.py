"""A block's steps equal torch's plain loop to the bit."""

import pytest
import torch

from paceline.errors import UsageError
from paceline.messages.shared import Hyper
from paceline.params.dense import OPTIMIZERS, OptimizeBlock, weighted_sum

FUSED = {"SGD", "Adam", "AdamW", "Adagrad"}
SETTINGS: list[tuple[str, Hyper]] = [
    *((kind, {"lr": 0.1}) for kind in OPTIMIZERS),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "maximize": True}),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.9), "amsgrad": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("AdamW", {"lr": 0.1, "betas": (0.8, 0.9), "weight_decay": 0.1, "eps": 1e-3}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True}),
]
DTYPES = [torch.float32, torch.float64, torch.bfloat16]


def _gradients(steps: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(37, generator=generator).to(dtype) for _ in range(steps)]


def _plain(
    kind: str, hyper: Hyper, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.optim.Optimizer]:
    values = torch.linspace(-1, 1, 37).to(dtype)
    options = {"fused": True} if kind in FUSED else {}
    return values, OPTIMIZERS[kind]([values], **hyper, **options)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("kind", "hyper"), SETTINGS)
def test_steps_with_a_changing_rate_equal_the_plain_loop_to_the_bit(
    kind: str, hyper: Hyper, dtype: torch.dtype
) -> None:
    values, optimizer = _plain(kind, hyper, dtype)
    block = OptimizeBlock(values.clone(), kind, hyper)
    for step, gradient in enumerate(_gradients(5, dtype)):
        lr = 0.1 / (1 + step // 2)
        optimizer.param_groups[0]["lr"] = lr
        values.grad = gradient.clone()
        optimizer.step()
        block.apply(gradient, {**hyper, "lr": lr})
        assert torch.equal(block.values, values)


@pytest.mark.parametrize(("kind", "hyper"), SETTINGS)
def test_a_loaded_block_goes_on_identically(kind: str, hyper: Hyper) -> None:
    first = OptimizeBlock(torch.ones(37), kind, hyper)
    for gradient in _gradients(3):
        first.apply(gradient, hyper)
    second = OptimizeBlock(first.values.clone(), kind, hyper)
    second.load(first.state())
    for gradient in _gradients(2):
        first.apply(gradient, hyper)
        second.apply(gradient, hyper)
    assert torch.equal(first.values, second.values)
    assert first.state().keys() == second.state().keys()
    for name, value in first.state().items():
        assert torch.equal(value, second.state()[name])


@pytest.mark.parametrize(("kind", "hyper"), SETTINGS)
def test_a_step_leaves_the_gradient_as_it_was(kind: str, hyper: Hyper) -> None:
    block = OptimizeBlock(torch.ones(37), kind, hyper)
    for gradient in _gradients(2):
        before = gradient.clone()
        block.apply(gradient, hyper)
        assert torch.equal(gradient, before)


def test_tuples_and_flags_change_with_the_step_that_carries_them() -> None:
    values, optimizer = _plain("Adam", {"lr": 0.1}, torch.float32)
    block = OptimizeBlock(values.clone(), "Adam", {"lr": 0.1})
    first, second = _gradients(2)
    values.grad = first
    optimizer.step()
    block.apply(first, {"lr": 0.1})
    optimizer.param_groups[0].update(betas=(0.5, 0.6), weight_decay=0.3)
    values.grad = second
    optimizer.step()
    block.apply(second, {"lr": 0.1, "betas": (0.5, 0.6), "weight_decay": 0.3})
    assert torch.equal(block.values, values)


def test_a_trainers_whole_parameter_group_is_taken() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=True)
    torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=9)
    group = {k: v for k, v in optimizer.param_groups[0].items() if k != "params"}
    block = OptimizeBlock(torch.ones(3), "AdamW", group)
    block.apply(torch.ones(3), group)
    assert block.state().keys() == {"step", "exp_avg", "exp_avg_sq"}


def test_the_blocks_memory_is_the_callers() -> None:
    arena = torch.ones(5)
    OptimizeBlock(arena[1:4], "SGD", {"lr": 1.0}).apply(torch.ones(3), {"lr": 1.0})
    assert arena.tolist() == [1, 0, 0, 0, 1]


def test_an_unknown_optimizer_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"SGD, Adam, .*Rprop, got 'LBFGS'"):
        OptimizeBlock(torch.ones(3), "LBFGS", {"lr": 0.1})


def test_what_torch_refuses_is_the_callers_error() -> None:
    with pytest.raises(UsageError, match=r"torch\.optim\.Adam refuses .*learning rate"):
        OptimizeBlock(torch.ones(3), "Adam", {"lr": -0.1})


def test_state_of_another_block_is_refused() -> None:
    block = OptimizeBlock(torch.ones(3), "Adam", {"lr": 0.1})
    with pytest.raises(UsageError, match=r"'exp_avg': expected .* \(3,\), got \(4,\)"):
        block.load({"exp_avg": torch.ones(4)})


def test_one_contributor_of_weight_one_keeps_its_bits() -> None:
    gradient = torch.tensor([0.1, -0.0, float("inf"), 1e-45])
    assert weighted_sum([gradient], [1.0]) is gradient


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, 0.3, 1.0], [1.0, 2.5, 0.1, 7.0]])
def test_a_sum_begins_with_a_weight_of_one_without_its_product(
    weights: list[float], dtype: torch.dtype
) -> None:
    draw = torch.Generator().manual_seed(2)
    gradients = [torch.randn(1003, generator=draw).to(dtype) for _ in weights]
    before = [gradient.clone() for gradient in gradients]
    expected = gradients[0] * weights[0]
    for gradient, weight in zip(gradients[1:], weights[1:], strict=True):
        expected = expected.add(gradient, alpha=weight)
    assert torch.equal(weighted_sum(gradients, weights), expected)
    assert all(torch.equal(a, b) for a, b in zip(gradients, before, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_weighted_sum_is_the_sum_in_order_and_changes_no_input(
    dtype: torch.dtype,
) -> None:
    gradients = _gradients(3, dtype)
    before = [g.clone() for g in gradients]
    total = weighted_sum(gradients, [0.5, 0.25, 0.25])
    expected = sum(w * g.double() for w, g in zip([0.5, 0.25, 0.25], before, strict=True))
    torch.testing.assert_close(total, expected.to(dtype))
    assert torch.equal(total, weighted_sum(gradients, [0.5, 0.25, 0.25]))
    for gradient, old in zip(gradients, before, strict=True):
        assert torch.equal(gradient, old)

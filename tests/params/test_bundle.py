"""Blocks that step together come to the bits of each block's own step."""

from typing import Any

import pytest
import torch

from paceline.params.bundle import bundled, rule_of
from paceline.params.dense import OPTIMIZERS, OptimizeBlock

SIZES = {4: 5, 7: 1, 9: 300}
NO_GROUP = dict.fromkeys(SIZES, 0)


def _blocks(kind: str, hyper: dict[str, Any]) -> dict[int, OptimizeBlock]:
    torch.manual_seed(1)
    return {slot: OptimizeBlock(torch.randn(n), kind, hyper) for slot, n in SIZES.items()}


def _gradients(step: int) -> dict[int, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return {slot: torch.randn(n, generator=generator) for slot, n in SIZES.items()}


def _same(ours: dict[int, OptimizeBlock], theirs: dict[int, OptimizeBlock]) -> None:
    for slot, block in ours.items():
        assert torch.equal(block.values, theirs[slot].values)
        mine, other = block.state(), theirs[slot].state()
        assert mine.keys() == other.keys()
        assert all(torch.equal(mine[name], other[name]) for name in mine)


CASES = [
    *((kind, {"lr": 0.05}) for kind in OPTIMIZERS),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "amsgrad": True}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {"lr": 0.05, "lr_decay": 0.1}),
]


@pytest.mark.parametrize(("kind", "hyper"), CASES, ids=str)
def test_a_bundle_takes_the_step_of_each_block(kind: str, hyper: dict[str, Any]) -> None:
    ours, theirs = _blocks(kind, hyper), _blocks(kind, hyper)
    [bundle] = bundled(ours, NO_GROUP, 1 << 20)
    for step in range(6):
        by_now = {**hyper, "lr": 0.05 / (1 + step // 3)}  # a scheduler has moved it
        gradients = _gradients(step)
        if step == 4:  # a block had none
            del gradients[7]
        kept = {slot: gradient.clone() for slot, gradient in gradients.items()}
        bundle.apply(gradients, by_now)
        assert all(torch.equal(gradients[slot], kept[slot]) for slot in kept)
        for slot, gradient in gradients.items():
            theirs[slot].apply(gradient, by_now)
        _same(ours, theirs)


def test_a_bundle_goes_on_from_state_that_was_loaded() -> None:
    ours, theirs = _blocks("Adam", {"lr": 0.1}), _blocks("Adam", {"lr": 0.1})
    [bundle] = bundled(ours, NO_GROUP, 1 << 20)
    for step in range(3):
        bundle.apply(_gradients(step), {"lr": 0.1})
        for slot, gradient in _gradients(step).items():
            theirs[slot].apply(gradient, {"lr": 0.1})
        ours[9].load({})
        theirs[9].load({})
        bundle.forget()
    _same(ours, theirs)


def test_large_blocks_rows_and_other_groups_are_bundles_of_their_own() -> None:
    kinds = {0: (10,), 1: (10,), 2: (200,), 3: (10,), 4: (5, 2), 5: (10,)}
    blocks = {
        slot: OptimizeBlock(torch.zeros(shape), "SGD", {"lr": 0.1})
        for slot, shape in kinds.items()
    }
    found = list(bundled(blocks, {0: 0, 1: 0, 2: 0, 3: 1, 4: 0, 5: 0}, 100))
    together = sorted(tuple(bundle.blocks) for bundle in found)
    assert together == [(0, 1), (2,), (3,), (4,), (5,)]
    assert {bundle.lead: bundle.group for bundle in found}[3] == 1
    assert [len(one.blocks) for one in bundled(blocks, dict.fromkeys(kinds, 0), 0)] == [
        1
    ] * 6


def test_an_optimizer_that_does_more_steps_itself() -> None:
    values = [torch.zeros(1)]
    assert rule_of(torch.optim.Adam(values, fused=True)) is not None
    assert rule_of(torch.optim.Adam(values, fused=False)) is None
    assert rule_of(torch.optim.Adam(values, fused=True, amsgrad=True)) is None
    assert rule_of(torch.optim.Adam(values, fused=True, lr=torch.tensor(0.1))) is None
    assert rule_of(torch.optim.NAdam(values)) is None


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_rule_names_the_state_that_its_kernel_changes(momentum: float) -> None:
    values = torch.zeros(3)
    optimizer = torch.optim.SGD([values], lr=0.1, momentum=momentum, fused=True)
    values.grad = torch.ones(3)
    optimizer.step()
    rule, options = rule_of(optimizer), optimizer.param_groups[0]
    assert rule is not None
    made: dict[str, Any] = {
        name: held for name, held in optimizer.state[values].items() if held is not None
    }
    assert set(rule.state(options)) == made.keys()

"""A part's numbers follow the pace of its plan, there and back."""

import torch
from torch import nn

from paceline.config import Async, LocalSGD, Pace, Sync
from paceline.messages.shared import PartSpec
from paceline.pace.changing import with_pace
from paceline.trainer.share.description import describe
from paceline.trainer.tensors import ModelTensors, PartSteps

Adam = torch.optim.Adam


def shared(*, sends_early: bool = False) -> tuple[ModelTensors, PartSpec, Adam]:
    model = nn.Linear(3, 1)
    optimizer = Adam(
        [{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "lr": 0.2}]
    )
    described = describe(model, optimizer)
    steps = PartSteps(described.parameters, optimizer.param_groups, optimizer)
    numbers = ModelTensors(steps, Sync(), sends_early=sends_early)
    spec = PartSpec(0, described.specs, described.optimizer, (), Sync())
    return numbers, spec, optimizer


def follow(numbers: ModelTensors, spec: PartSpec, pace: Pace) -> PartSpec:
    changed = with_pace(spec, pace)
    numbers.take_pace(changed)
    return changed


def test_with_local_steps_the_trainers_optimizer_steps_and_pushes_say_the_outer_ones() -> (
    None
):
    numbers, spec, optimizer = shared()
    local = follow(numbers, spec, LocalSGD(every=4))
    assert numbers.steps.deltas is not None
    assert [group["lr"] for group in numbers.steps.groups] == [1.0, 1.0]
    for parameter in numbers.parameters:
        parameter.grad = torch.ones_like(parameter)
    numbers.steps.deltas.step()
    assert all((delta > 0).all() for delta in numbers.steps.deltas.take().values())
    assert optimizer.state
    follow(numbers, local, Sync())
    assert numbers.steps.deltas is None
    assert [group["lr"] for group in numbers.steps.groups] == [0.1, 0.2]
    assert not optimizer.state_dict()["state"], "inner state is dropped"


def test_between_local_paces_nobody_but_the_inner_state_changes() -> None:
    numbers, spec, optimizer = shared()
    local = follow(numbers, spec, LocalSGD(every=4))
    deltas = numbers.steps.deltas
    assert deltas is not None
    for parameter in numbers.parameters:
        parameter.grad = torch.ones_like(parameter)
    deltas.step()
    follow(numbers, local, LocalSGD(every=8))
    assert numbers.steps.deltas is deltas
    assert not optimizer.state_dict()["state"], "inner state is dropped"


def test_gradients_go_ahead_of_their_push_only_where_the_pace_lets_them() -> None:
    numbers, spec, _ = shared(sends_early=True)
    kept = follow(numbers, spec, Async(push_every=4))
    assert numbers.early is not None
    assert not numbers.early.is_on
    follow(numbers, kept, Async())
    assert numbers.early.is_on


def test_values_may_come_while_the_user_computes_only_where_pushes_overlap() -> None:
    numbers, spec, _ = shared()
    apart = follow(numbers, spec, Async(pull_every=2))
    assert numbers.values.memory.is_apart
    follow(numbers, apart, Sync())
    assert not numbers.values.memory.is_apart

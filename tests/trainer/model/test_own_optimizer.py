"""The user's own optimizer object, once it is shared."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from paceline.errors import UsageError
from paceline.trainer.model.own_optimizer import (
    load_own_state,
    own_state,
    release,
    step_own,
)
from paceline.trainer.session import Session
from paceline.trainer.share.optimizer import SharedOptimizer

DATA = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
BATCH = 4


def make_net() -> nn.Linear:
    return nn.Linear(3, 1)


def sgd(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, **options)


@pytest.mark.parametrize("how", ["method", "class", "scheduled"])
def test_the_users_own_object_steps_no_more(session: Session, how: str) -> None:
    model = make_net()
    own = sgd(model)
    session.share(model, own)
    if how == "scheduled":
        lr_scheduler.ExponentialLR(own, 0.7)
    before = model.weight.detach().clone()

    def loop() -> None:
        for batch in session.batches(DATA, BATCH):
            model(batch).sum().backward()
            if how == "class":
                torch.optim.SGD.step(own)
            else:
                own.step()

    with pytest.raises(UsageError, match="keep what share returned"):
        loop()
    assert torch.equal(model.weight, before)


def test_a_grad_scaler_does_not_step_the_users_own_object(session: Session) -> None:
    model = make_net()
    own = torch.optim.SGD(model.parameters(), lr=0.1)
    session.share(model, own)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def loop() -> None:
        for batch in session.batches(DATA, BATCH):
            scaler.scale(model(batch).sum()).backward()
            scaler.step(own)

    with pytest.raises(UsageError, match="keep what share returned"):
        loop()


def test_two_steps_for_one_batch(session: Session) -> None:
    model = make_net()
    optimizer = session.share(model, sgd(model))

    def loop() -> None:
        for batch in session.batches(DATA, BATCH):
            model(batch).sum().backward()
            optimizer.step()
            optimizer.step()

    with pytest.raises(UsageError, match=r"step\(\) without a batch"):
        loop()


# ------------------------------------------------------------ where steps are taken here


def kept(own: torch.optim.Optimizer, *, steps_here: bool) -> SharedOptimizer:
    return SharedOptimizer(own, lambda _: None, lambda: None, steps_here=steps_here)


def test_a_step_here_runs_no_hook() -> None:
    model, calls = make_net(), []
    own = sgd(model, momentum=0.9)
    own.register_step_pre_hook(lambda *_: calls.append("pre"))
    shared = kept(own, steps_here=True)
    model(DATA).sum().backward()
    before = model.weight.detach().clone()
    step_own(own)
    assert calls == []
    assert not torch.equal(model.weight, before)
    assert "momentum_buffer" in own.state[model.weight]
    shared.step()
    assert calls == ["pre"]


def test_an_optimizer_that_steps_by_its_parent() -> None:
    class Halved(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            for parameter in self.param_groups[0]["params"]:
                parameter.grad.mul_(0.5)
            super().step(closure)

    model = make_net()
    own = Halved(model.parameters(), lr=1.0)
    kept(own, steps_here=True)
    model.weight.grad = torch.ones_like(model.weight)
    model.bias.grad = torch.ones_like(model.bias)
    before = model.weight.detach().clone()
    step_own(own)
    assert torch.equal(model.weight, before - 0.5)
    with pytest.raises(UsageError, match="keep what share returned"):
        own.step()


def test_state_that_is_loaded_leaves_groups_what_they_are() -> None:
    model = make_net()
    own = sgd(model, momentum=0.9)
    shared = kept(own, steps_here=True)
    model(DATA).sum().backward()
    fresh = own_state(own)
    step_own(own)
    groups = own.param_groups
    fresh["param_groups"][0]["lr"] = 0.7
    load_own_state(own, fresh)
    assert own.param_groups is shared.param_groups is groups
    assert groups[0]["lr"] == 0.7
    assert not own.state


def test_a_pace_that_changes_later_finds_state_here() -> None:
    model = make_net()
    own = torch.optim.Adagrad(model.parameters())
    kept(own, steps_here=False)
    model(DATA).sum().backward()
    step_own(own)
    assert own.state[model.weight]["sum"].sum() > 0


def test_an_optimizer_is_the_users_again() -> None:
    model = make_net()
    own = torch.optim.Adagrad(model.parameters())
    kept(own, steps_here=False)
    release(own)
    model(DATA).sum().backward()
    before = model.weight.detach().clone()
    own.step()
    assert not torch.equal(model.weight, before)
    own.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    assert own.state[model.weight]["sum"].sum() > 0

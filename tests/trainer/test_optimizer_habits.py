"""What ordinary scripts do around an optimizer: as in the plain loop, to the bit."""

import copy
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler, swa_utils

from paceline.trainer.rows.embedding import Embedding
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob

DATA = torch.randn(24, 6, generator=torch.Generator().manual_seed(0))
BATCH = 4


class Plain:
    """The plain loop: no paceline at all."""

    def share(
        self, _: nn.Module, optimizer: torch.optim.Optimizer
    ) -> torch.optim.Optimizer:
        return optimizer

    def batches(self, data: torch.Tensor, size: int, **_: Any) -> Iterable[torch.Tensor]:
        return data.split(size)


Script = Callable[[Any], nn.Module]


def make_net() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))


def sgd(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, fused=True, **options)


def adam(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01, fused=True, **options)


def assert_equal(found: nn.Module, expected: nn.Module) -> None:
    for mine, theirs in zip(found.parameters(), expected.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def assert_as_plain(script: Script) -> None:
    expected = script(Plain())
    with FakeJob().session() as session:
        found = script(session)
        assert session.records == len(DATA)
    assert_equal(found, expected)
    assert not torch.equal(next(expected.parameters()), next(make_net().parameters()))


def train(
    session: Any,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    before: Callable[[int], None] = lambda _: None,
) -> nn.Module:
    batches = session.batches(DATA, BATCH, shuffle=False)
    for number, batch in enumerate(batches):
        model(batch).square().mean().backward()
        before(number)
        optimizer.step()
        optimizer.zero_grad()
    return model


# ------------------------------------------------------------ hooks


def halve(optimizer: torch.optim.Optimizer, *_: object) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad.mul_(0.5)


@pytest.mark.parametrize("where", ["before", "own", "shared"])
def test_a_step_pre_hook_changes_gradients(where: str) -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        own = sgd(model, momentum=0.9)
        if where == "before":
            own.register_step_pre_hook(halve)
        optimizer = session.share(model, own)
        if where != "before":
            (own if where == "own" else optimizer).register_step_pre_hook(halve)
        return train(session, model, optimizer)

    assert_as_plain(script)


@pytest.mark.parametrize("where", ["before", "own", "shared"])
def test_a_step_post_hook_sees_the_new_values(where: str) -> None:
    seen: list[torch.Tensor] = []

    def script(session: Any) -> nn.Module:
        model = make_net()
        own = sgd(model)

        def clamp(*_: object) -> None:
            seen.append(model[0].weight.detach().clone())

        if where == "before":
            own.register_step_post_hook(clamp)
        optimizer = session.share(model, own)
        if where != "before":
            (own if where == "own" else optimizer).register_step_post_hook(clamp)
        return train(session, model, optimizer)

    assert_as_plain(script)
    plain, shared = seen[:6], seen[6:]
    assert all(map(torch.equal, plain, shared))
    assert len(shared) == 6


def test_a_hook_that_was_removed_runs_no_more() -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        own = sgd(model)
        handle = own.register_step_pre_hook(halve)
        optimizer = session.share(model, own)

        def remove(number: int) -> None:
            if number == 2:
                handle.remove()

        return train(session, model, optimizer, remove)

    assert_as_plain(script)


def test_hooks_of_the_state_dict_run(session: Session) -> None:
    seen: list[str] = []
    model = make_net()
    own = sgd(model)
    own.register_state_dict_pre_hook(lambda _: seen.append("save"))
    own.register_state_dict_post_hook(lambda _, state: {**state, "version": 2})
    optimizer = session.share(model, own)
    optimizer.register_load_state_dict_pre_hook(
        lambda _, state: {k: v for k, v in state.items() if k != "version"}
    )
    own.register_load_state_dict_post_hook(lambda _: seen.append("load"))
    saved = optimizer.state_dict()
    assert saved["version"] == 2
    saved["param_groups"][0]["lr"] = 0.3
    optimizer.load_state_dict(saved)
    assert seen == ["save", "load"]
    assert own.param_groups[0]["lr"] == 0.3


# ------------------------------------------------------------ values of groups


def set_group(optimizer: torch.optim.Optimizer, **values: Any) -> None:
    for group in optimizer.param_groups:
        group.update(values)


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize(
    ("make", "values"),
    [
        (sgd, {"momentum": 0.9}),
        (sgd, {"weight_decay": 0.1}),
        (sgd, {"lr": torch.tensor(0.05)}),
        (sgd, {"maximize": True}),
        (adam, {"betas": (0.5, 0.9)}),
        (adam, {"eps": 1e-3, "weight_decay": 0.01}),
    ],
    ids=lambda found: getattr(found, "__name__", str(found)),
)
def test_values_of_a_group_change_later(
    make: Callable[..., torch.optim.Optimizer], values: dict[str, Any], is_own: bool
) -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        own = make(model)
        optimizer = session.share(model, own)

        def change(number: int) -> None:
            if number == 3:
                set_group(own if is_own else optimizer, **values)

        return train(session, model, optimizer, change)

    assert_as_plain(script)


@pytest.mark.parametrize(
    "options",
    [
        {"maximize": True},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.9, "dampening": 0.1},
    ],
    ids=lambda found: getattr(found, "__name__", str(found)),
)
def test_options_of_an_optimizer(options: dict[str, Any]) -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        return train(session, model, session.share(model, sgd(model, **options)))

    assert_as_plain(script)


def test_a_rate_that_is_a_tensor() -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        own = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01), fused=True)
        return train(session, model, session.share(model, own))

    assert_as_plain(script)


@pytest.mark.parametrize("flag", ["foreach", "fused"])
def test_how_a_step_would_run_here_changes_no_number(flag: str) -> None:
    """Servers step by fused kernels, whatever the optimizer says of itself."""

    def script(session: Any) -> nn.Module:
        model = make_net()
        plain = {"fused": True}
        options = plain if isinstance(session, Plain) else {flag: flag == "foreach"}
        own = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, **options)
        return train(session, model, session.share(model, own))

    assert_as_plain(script)


def test_defaults_are_for_groups_to_come() -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        optimizer = session.share(model, sgd(model))
        optimizer.defaults["lr"] = 10.0
        return train(session, model, optimizer)

    assert_as_plain(script)


@pytest.mark.parametrize("is_own", [False, True])
def test_hyper_parameters_are_loaded_back(is_own: bool) -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        own = sgd(model)
        saved = copy.deepcopy(own.state_dict())
        saved["param_groups"][0]["lr"] = 0.02
        optimizer = session.share(model, own)
        (own if is_own else optimizer).load_state_dict(saved)
        return train(session, model, optimizer)

    assert_as_plain(script)


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("is_own", [False, True])
def test_a_scheduler_on_either_object(is_own: bool, is_before: bool) -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        own = sgd(model)
        scheduler = lr_scheduler.ExponentialLR(own, 0.7) if is_before else None
        optimizer = session.share(model, own)
        if scheduler is None:
            scheduler = lr_scheduler.ExponentialLR(own if is_own else optimizer, 0.7)
        for batch in session.batches(DATA, BATCH, shuffle=False):
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
        return model

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_as_plain(script)


# ------------------------------------------------------------ gradients


def test_gradients_are_clipped() -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        optimizer = session.share(model, sgd(model))

        def clip(_: int) -> None:
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)

        return train(session, model, optimizer, clip)

    assert_as_plain(script)


def test_gradients_are_set_by_hand() -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        optimizer = session.share(model, sgd(model))

        def set_gradients(number: int) -> None:
            for parameter in model.parameters():
                parameter.grad = torch.full_like(parameter, 0.01 * number)

        return train(session, model, optimizer, set_gradients)

    assert_as_plain(script)


def test_zero_grad_is_forgotten() -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        optimizer = session.share(model, sgd(model))
        for batch in session.batches(DATA, BATCH, shuffle=False):
            model(batch).square().mean().backward()
            optimizer.step()
        return model

    assert_as_plain(script)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad_of_the_users_own_object(set_to_none: bool) -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        own = sgd(model)
        optimizer = session.share(model, own)
        for batch in session.batches(DATA, BATCH, shuffle=False):
            own.zero_grad(set_to_none=set_to_none)
            model(batch).square().mean().backward()
            optimizer.step()
        return model

    assert_as_plain(script)


def test_zero_grad_of_the_users_own_object_drops_rows() -> None:
    job = FakeJob()
    with job.session() as session:
        rows, dense = Embedding("user", 3), nn.Linear(3, 1)
        own = torch.optim.SGD(dense.parameters(), lr=0.1)
        optimizer = session.share(nn.Sequential(rows, dense), own)
        before = rows(torch.arange(4)).detach()
        for batch in session.batches(torch.arange(4), 4):
            dense(rows(batch)).sum().backward()
            own.zero_grad()
            optimizer.step()
        assert torch.equal(rows(torch.arange(4)), before)


def test_two_backwards_through_one_graph() -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        optimizer = session.share(model, sgd(model))
        for batch in session.batches(DATA, BATCH, shuffle=False):
            out = model(batch)
            out.square().mean().backward(retain_graph=True)
            out.abs().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return model

    assert_as_plain(script)


# ------------------------------------------------------------ models


@pytest.mark.parametrize("shares_compiled", [True, False])
def test_a_compiled_model(shares_compiled: bool) -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        own = sgd(model)
        compiled = torch.compile(model, backend="eager")
        optimizer = session.share(compiled if shares_compiled else model, own)
        train(session, compiled, optimizer)
        return model

    assert_as_plain(script)


def test_an_average_of_the_model_follows_it() -> None:
    def script(session: Any) -> nn.Module:
        model = make_net()
        average = swa_utils.AveragedModel(
            model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9)
        )
        optimizer = session.share(model, sgd(model))
        optimizer.register_step_post_hook(lambda *_: average.update_parameters(model))
        train(session, model, optimizer)
        return average.module

    assert_as_plain(script)

"""Every elementwise optimizer of torch takes the plain loop's steps on the servers."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn

from paceline.config import Async
from paceline.errors import UsageError
from paceline.params.dense import NOT_SHARED, OPTIMIZERS
from paceline.params.sparse import SPARSE_OPTIMIZERS
from tests.trainer.fake_job import FakeJob

FEATURES = torch.randn(24, 3, generator=torch.Generator().manual_seed(0))
BATCH = 4
Groups = Iterable[dict[str, Any]]
Make = Callable[[Groups], torch.optim.Optimizer]

VARIANTS: dict[str, Make] = {  # beside each with its defaults
    "SGD momentum nesterov decay": lambda g: torch.optim.SGD(
        g, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01
    ),
    "SGD dampening maximize": lambda g: torch.optim.SGD(
        g, lr=0.01, momentum=0.5, dampening=0.3, maximize=True
    ),
    "Adam amsgrad decay": lambda g: torch.optim.Adam(g, amsgrad=True, weight_decay=0.1),
    "Adam decoupled": lambda g: torch.optim.Adam(
        g, weight_decay=0.1, decoupled_weight_decay=True
    ),
    "Adagrad decays": lambda g: torch.optim.Adagrad(
        g, lr=0.1, lr_decay=0.1, weight_decay=0.01, initial_accumulator_value=0.1
    ),
    "RMSprop centered momentum": lambda g: torch.optim.RMSprop(
        g, lr=0.01, centered=True, momentum=0.9
    ),
    "NAdam decoupled": lambda g: torch.optim.NAdam(
        g, weight_decay=0.1, decoupled_weight_decay=True
    ),
    "Rprop": lambda g: torch.optim.Rprop(g, etas=(0.4, 1.3), step_sizes=(1e-5, 1.0)),
    "lr as a tensor": lambda g: torch.optim.Adam(g, lr=torch.tensor(0.01)),
}
MAKES = {kind: getattr(torch.optim, kind) for kind in OPTIMIZERS} | VARIANTS


def make_model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def make_groups(model: nn.Module) -> list[dict[str, Any]]:
    first, last = model[0].parameters(), model[2].parameters()
    return [{"params": list(first), "lr": 0.02}, {"params": list(last)}]


def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Any) -> None:
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    for features in batches:
        model(features).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()


@pytest.mark.parametrize("name", MAKES)
def test_groups_and_a_schedule_give_the_steps_of_the_plain_loop(name: str) -> None:
    make, plain, model = MAKES[name], make_model(), make_model()
    train(plain, make(make_groups(plain)), FEATURES.split(BATCH))
    with FakeJob(servers=2, pace=Async()).session() as session:
        inner = make(make_groups(model))
        optimizer = session.share(model, inner)
        train(model, optimizer, session.batches(FEATURES, BATCH, shuffle=False))
        assert optimizer.state_dict()["param_groups"] == inner.state_dict()["param_groups"]
    assert any(map(torch.ne, plain[0].bias, make_model()[0].bias)), "nothing was trained"
    for found, expected in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found.data, expected.data, rtol=2e-6, atol=1e-6)


def test_every_optimizer_of_torch_is_shared_or_refused_with_a_reason() -> None:
    kinds = {
        name
        for name, kind in vars(torch.optim).items()
        if isinstance(kind, type) and kind is not torch.optim.Optimizer
    }
    assert kinds == {*OPTIMIZERS, *SPARSE_OPTIMIZERS, *NOT_SHARED}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("LBFGS", "evaluates the model again"),
        ("Muon", "whole matrices"),
        ("Adafactor", "whole rows and columns"),
        ("SparseAdam", "SparseAdam does not support dense gradients"),
    ],
)
def test_what_no_server_can_step_is_refused(kind: str, reason: str) -> None:
    model = nn.Linear(2, 2, bias=False)
    with FakeJob().session() as session, pytest.raises(UsageError, match=reason):
        session.share(model, getattr(torch.optim, kind)(model.parameters()))

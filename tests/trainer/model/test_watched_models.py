"""A model that is no longer what was shared is refused, and says which parameter."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from paceline.errors import UsageError
from paceline.trainer.model.watched import WatchedModel
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob

DATA = torch.arange(12.0).reshape(6, 2)


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))


def never(_: torch.Tensor) -> bool:
    return False


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            nn.Module.double,
            r"'0.weight' was shared as torch.float32 and is torch.float64 .*",
        ),
        (nn.Module.half, r"is torch.float16 now: .* model.half\(\) first, then the optim"),
        (nn.Module.bfloat16, r"is torch.bfloat16 now: .* model.bfloat16\(\) first"),
    ],
)
def test_another_dtype_is_refused_before_a_loop_and_at_a_step(
    job: FakeJob, change: Callable[[nn.Module], object], text: str
) -> None:
    with job.session() as session:
        model = net()
        optimizer = session.share(model, sgd(model))
        batches = iter(session.batches(DATA, 2))
        next(batches)
        change(model)
        with pytest.raises(UsageError, match=text):
            optimizer.step()
        batches.close()  # type: ignore[attr-defined]
        with pytest.raises(UsageError, match=text):
            next(iter(session.batches(DATA, 2)))


def test_a_parameter_unfrozen_later_is_refused_with_both_ways_out(
    session: Session,
) -> None:
    model = net()
    model[0].requires_grad_(False)
    optimizer = session.share(model, sgd(model))
    batches = iter(session.batches(DATA, 2))
    model(next(batches)).sum().backward()
    optimizer.step()
    model(next(batches)).sum().backward()
    model[0].requires_grad_(True)
    with pytest.raises(
        UsageError, match=r"'0.weight' was frozen .* is trainable now"
    ) as told:
        optimizer.step()
    assert "Share it trainable and freeze it afterwards" in str(told.value)
    assert "session.unshare(model)" in str(told.value)


def test_a_frozen_parameter_with_a_gradient_is_refused_unless_it_had_it() -> None:
    model = net()
    model[0].requires_grad_(False)
    model[0].bias.grad = torch.ones(3)
    watched = WatchedModel(model, never)
    watched.check_step()
    model[0].bias.grad = torch.zeros(3)
    with pytest.raises(UsageError, match=r"'0.bias' was frozen .* has a gradient now"):
        watched.check_step()


def test_what_was_frozen_and_is_shared_by_another_part_now_is_trained(
    session: Session,
) -> None:
    model = net()
    model[0].requires_grad_(False)
    head = session.share(model, sgd(model))
    model[0].requires_grad_(True)
    body = session.share(model[0], sgd(model[0]))
    for batch in session.batches(DATA, 2):
        model(batch).sum().backward()
        head.step()
        body.step()


def test_what_was_trainable_may_be_frozen_and_unfrozen() -> None:
    model = net()
    watched = WatchedModel(model, never)
    for is_trainable in (False, True):
        model.requires_grad_(is_trainable)
        watched.check_step()


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model[0], "weight", nn.Parameter(torch.ones(3, 2))),
        lambda model: parametrizations.weight_norm(model[0]),
    ],
    ids=["assigned", "parametrized"],
)
def test_a_parameter_in_anothers_place_is_refused(
    session: Session, change: Callable[[nn.Module], object]
) -> None:
    model = net()
    session.share(model, sgd(model))
    change(model)
    with pytest.raises(UsageError, match=r"'0.weight' is no parameter of the model any"):
        next(iter(session.batches(DATA, 2)))


def test_a_lazy_module_must_know_its_shape(session: Session) -> None:
    model = nn.Sequential(nn.LazyLinear(8), nn.Linear(8, 1))
    with pytest.raises(
        UsageError, match=r"share: '0.weight' is of a lazy module .* run one"
    ):
        session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model(DATA)
    session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))

"""Another optimizer than the shared one, over the same parameters, moves no server."""

import warnings
from collections.abc import Callable

import pytest
from torch import nn

from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.session import Session
from paceline.trainer.share import optimizer as shared_optimizers
from tests.trainer.fake_job import FakeJob
from tests.trainer.test_optimizer_habits import BATCH, DATA, adam, make_net, sgd

Steps = Callable[[], object]
SECOND = r"step\(\) of another Adam over '0.weight' than session.share was given"


def told(session: Session, model: nn.Module, first: Steps, second: Steps) -> list[str]:
    """What a loop over six batches warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for batch in session.batches(DATA, BATCH):
            model(batch).square().mean().backward()
            second()
            first()
    return [str(one.message) for one in caught if one.category is StepWarning]


def test_it_is_told_at_its_first_step() -> None:
    with FakeJob().session() as session:
        model = make_net()
        session.share(model, sgd(model))
        second = adam(model)
        second.step()
        batches = iter(session.batches(DATA, BATCH))
        model(next(batches)).square().mean().backward()
        with pytest.warns(StepWarning, match=SECOND) as caught:
            second.step()
        assert caught[0].filename == __file__


def test_it_is_told_once() -> None:
    with FakeJob().session() as session:
        model = make_net()
        optimizer, second = session.share(model, sgd(model)), adam(model)
        found = told(session, model, optimizer.step, second.step)
        assert sum("step() of another Adam" in text for text in found) == 1


def test_an_optimizer_of_other_parameters_is_none_of_its_business() -> None:
    with FakeJob().session() as session:
        model, teacher = make_net(), make_net()
        optimizer, other = session.share(model, sgd(model)), adam(teacher)
        assert told(session, model, optimizer.step, other.step) == []


def test_a_model_that_is_the_scripts_own_again_may_have_any() -> None:
    with FakeJob().session() as session:
        model, later = make_net(), make_net()
        first, second = session.share(model, sgd(model)), adam(model)
        session.unshare(model)
        optimizer = session.share(later, sgd(later))
        assert told(session, later, optimizer.step, second.step) == []
        assert first is not optimizer, "it is still there"


def test_the_shared_one_steps_as_fast_as_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    followed: list[object] = []
    monkeypatch.setattr(shared_optimizers, "_step_followed", followed.append)
    with FakeJob().session() as session:
        model = make_net()
        optimizer = session.share(model, sgd(model))
        assert told(session, model, optimizer.step, lambda: None) == []
    assert followed == []

"""Who follows the steps of all optimizers follows shared ones: by a hook, or a profiler."""

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.profiler import ProfilerActivity, profile

from paceline.trainer.share import SharedOptimizer
from tests.trainer.fake_job import FakeJob
from tests.trainer.test_optimizer_habits import make_net, sgd, train


def test_a_hook_of_all_optimizers_is_called_as_torch_calls_it() -> None:
    seen: list[str] = []

    def tell(
        optimizer: torch.optim.Optimizer, args: tuple[object, ...], kwargs: object
    ) -> None:
        if isinstance(optimizer, SharedOptimizer):
            assert args == (optimizer,)
            seen.append(str(kwargs))

    before = register_optimizer_step_pre_hook(tell)
    after = register_optimizer_step_post_hook(tell)
    try:
        with FakeJob().session() as session:
            model = make_net()
            train(session, model, session.share(model, sgd(model)))
    finally:
        before.remove()
        after.remove()
    assert seen == ["{}"] * 12


def test_a_profiler_is_told_of_steps_and_of_gradients_that_go() -> None:
    with FakeJob().session() as session:
        model = make_net()
        optimizer = session.share(model, sgd(model))
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            train(session, model, optimizer)
    told = {event.key for event in profiled.key_averages()}
    assert "Optimizer.step#SharedOptimizer.step" in told
    assert "Optimizer.zero_grad#SharedOptimizer.zero_grad" in told

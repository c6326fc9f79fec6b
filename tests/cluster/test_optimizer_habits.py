"""The user's own optimizer where trainers step it themselves; loops that never step."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

import paceline
from paceline.config import parse_pace
from paceline.errors import UsageError
from paceline.trainer.encoding.state_codec import decode_state
from paceline.trainer.engine.engine import StepWarning

DATA = torch.randn(24, 6, generator=torch.Generator().manual_seed(0))
BATCH = 4
Run = Callable[..., list[Any]]


def make_net() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))


def halve(optimizer: torch.optim.Optimizer, *_: object) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad.mul_(0.5)


def train(
    batches: Any, share: Callable[[nn.Module, torch.optim.Optimizer], Any], *, is_own: bool
) -> tuple[nn.Module, int]:
    """A hook of each kind, and a scheduler on one of the two objects."""
    model, calls = make_net(), []
    own = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)
    own.register_step_pre_hook(halve)
    early = lr_scheduler.ExponentialLR(own, 0.9) if is_own else None
    optimizer = share(model, own)
    optimizer.register_step_post_hook(lambda *_: calls.append(0))
    scheduler = early or lr_scheduler.ExponentialLR(optimizer, 0.9)
    for batch in batches:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
    return model, len(calls)


@pytest.mark.parametrize("pace", ["local:1", "allreduce"])
@pytest.mark.parametrize("is_own", [False, True])
def test_one_trainer_that_steps_itself_equals_the_plain_loop(
    run: Run, pace: str, is_own: bool
) -> None:
    def script(session: paceline.Session) -> tuple[nn.Module, int]:
        def batches() -> Any:
            yield from session.batches(DATA, BATCH, shuffle=False)

        def share(model: nn.Module, own: torch.optim.Optimizer) -> Any:
            return session.share(model, own, pace=pace)

        return train(batches(), share, is_own=is_own)

    expected, num_calls = train(DATA.split(BATCH), lambda _, own: own, is_own=is_own)
    [(found, num_found)] = run(script, trainers=1)
    assert num_found == num_calls == len(DATA) // BATCH
    for mine, theirs in zip(found.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine.data, theirs.data, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("pace", ["local:2", "allreduce"])
def test_the_users_own_object_is_refused_there_too(run: Run, pace: str) -> None:
    def script(session: paceline.Session) -> str:
        model = make_net()
        own = torch.optim.SGD(model.parameters(), lr=0.1)
        session.share(model, own, pace=pace)
        for batch in session.batches(DATA, BATCH):
            model(batch).square().mean().backward()
            with pytest.raises(UsageError, match="keep what share returned"):
                own.step()
            break
        with pytest.raises(UsageError, match=r"'0\.weight' is shared already"):
            session.share(model, own, pace=pace)
        return "refused"

    assert run(script, trainers=1) == ["refused"]


def never(session: paceline.Session, **options: Any) -> nn.Module:
    """A loop that only accumulates."""
    model = make_net()
    session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for batch in session.batches(DATA, BATCH, **options):
        model(batch).square().mean().backward()
    return model


def test_a_loop_of_several_epochs_warns_before_it_is_refused(run: Run) -> None:
    def script(session: paceline.Session) -> str:
        with (
            pytest.warns(StepWarning, match="pushed at the end of the epoch, as if"),
            pytest.raises(UsageError, match="this trainer was delivered 12 batches"),
        ):
            never(session, epochs=2)
        return "refused"

    assert run(script, trainers=1) == ["refused"]


def test_accumulation_over_more_batches_than_a_trainer_gets(run: Run) -> None:
    """Three trainers with a task of two batches each, which step over four."""

    def script(session: paceline.Session) -> nn.Module:
        return never(session, task_size=2 * BATCH)

    with pytest.warns(StepWarning, match="delivered 2 batches"):
        models = run(script, trainers=3, pace=parse_pace("sync"))
    before = make_net()
    for model in models:
        assert not torch.equal(model[0].weight, before[0].weight)
        assert torch.equal(model[0].weight, models[0][0].weight)


def test_a_table_that_is_written_to_needs_no_step(run: Run) -> None:
    def script(session: paceline.Session) -> int:
        model = make_net()
        session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
        counts = session.table("counts", (24, 1))
        for batch in session.batches(torch.arange(24), BATCH):
            counts.push(batch, torch.ones(len(batch), 1))
        return int(counts.pull(torch.arange(24)).sum())

    assert run(script, trainers=1) == [24]


@pytest.mark.parametrize("clears", [False, True])
def test_a_model_that_gets_gradients_and_no_step_is_warned_of(
    run: Run, clears: bool
) -> None:
    """One of two models is stepped, and its backward goes through the other."""
    judge = nn.Linear(1, 1)
    before = judge.weight.detach().clone()

    def script(session: paceline.Session) -> torch.Tensor:
        model = make_net()
        first = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
        second = session.share(judge, torch.optim.SGD(judge.parameters(), lr=0.1))
        for batch in session.batches(DATA, BATCH):
            judge(model(batch)).square().mean().backward()
            first.step()
            first.zero_grad()
            if clears:
                second.zero_grad()
        return judge.weight.detach()

    if clears:
        [after] = run(script, trainers=1)
        assert torch.equal(after, before)
    else:
        with pytest.warns(StepWarning, match="has gradients, and no step"):
            run(script, trainers=1)


@pytest.mark.parametrize("is_own", [False, True])
def test_the_state_of_a_trainers_own_optimizer_is_read_set_back_and_tracked(
    run: Run, *, is_own: bool
) -> None:
    def script(session: paceline.Session) -> None:
        model = make_net()
        own = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        optimizer = session.share(model, own, pace="local:1")
        one = own if is_own else optimizer
        session.track(optimizer=one)
        for number, batch in enumerate(session.batches(DATA, BATCH)):
            model(batch).square().mean().backward()
            optimizer.step()
            momentum = one.state[model[0].weight]["momentum_buffer"].clone()
            if number == 0:
                first, saved = momentum, copy.deepcopy(one.state_dict())
        assert not torch.equal(first, momentum)
        one.load_state_dict(saved)
        for each in (own, optimizer):
            assert torch.equal(each.state[model[0].weight]["momentum_buffer"], first)
        tracked = decode_state(session._seat.tracker.encode())["optimizer"]["state"]
        assert torch.equal(tracked[0]["momentum_buffer"], first)

    run(script, trainers=1)

"""With `overlap=True` gradients leave while backward still runs; nothing else changes."""

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from paceline.config import Async, DiLoCo, LocalSGD, Pace, Sync
from paceline.errors import UsageError
from paceline.messages.data import Push, PushEarly
from paceline.messages.shared import Message
from paceline.server.requests.early_gradients import EarlyGradients
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.session import Session
from paceline.trainer.tensors.backward_overlap import why_not_early
from tests.trainer.fake_job import FakeJob

WIDE = 128  # 128 x 128 float32 are worth a message of their own
FEATURES = torch.linspace(-1, 1, 12 * WIDE).reshape(12, WIDE)
BATCH = 2
PATIENCE_S = 10.0

Use = Callable[[int, nn.Module, torch.optim.Optimizer, Tensor], None]
"""(number of the batch, model, optimizer, loss): what a loop does with a loss."""


def make_model() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(WIDE, WIDE), nn.Tanh(), nn.Linear(WIDE, 1))


def step(
    _number: int, _model: nn.Module, optimizer: torch.optim.Optimizer, _loss: Tensor
) -> None:
    optimizer.step()
    optimizer.zero_grad()


def step_each(
    number: int, model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor
) -> None:
    loss.backward()
    step(number, model, optimizer, loss)


def accumulate_two(
    number: int, _model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor
) -> None:
    loss.backward()
    if number % 2:
        optimizer.step()
        optimizer.zero_grad()


def keep_zeros(
    _number: int, _model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor
) -> None:
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)


def skip_some(
    number: int, _model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor
) -> None:
    loss.backward()
    if number % 3 == 1:
        optimizer.zero_grad()  # this batch had better not count
        return
    optimizer.step()
    optimizer.zero_grad()


def freeze_one(
    number: int, model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor
) -> None:
    loss.backward()
    if number % 2:
        assert isinstance(model, nn.Sequential)
        model[0].weight.grad = None
    optimizer.step()
    optimizer.zero_grad()


def meet_infinity(
    number: int, _model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor
) -> None:
    (loss * (torch.inf if number == 2 else 1)).backward()
    optimizer.step()
    optimizer.zero_grad()


def train(session: Session, use: Use = step_each, *, overlap: bool = True) -> list[Tensor]:
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer = session.share(model, optimizer, overlap=overlap)
    batches = session.batches(FEATURES, BATCH, shuffle=False, task_size=6)
    for number, features in enumerate(batches):
        use(number, model, optimizer, model(features).square().mean())
    return [parameter.detach().clone() for parameter in model.parameters()]


def run(job: FakeJob, use: Use = step_each, *, overlap: bool = True) -> list[Tensor]:
    with job.session() as session:
        return train(session, use, overlap=overlap)


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def early(job: FakeJob) -> list[PushEarly]:
    return [message for message in job.of(PushEarly) if isinstance(message, PushEarly)]


def pushes(job: FakeJob) -> list[Push]:
    return [message for message in job.of(Push) if isinstance(message, Push)]


PACES: list[Pace] = [Sync(), Async(), Async(pull_every=2)]


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("use", [step_each, keep_zeros, accumulate_two, freeze_one])
def test_the_values_are_those_without_overlap_to_the_bit(use: Use, pace: Pace) -> None:
    job = FakeJob(servers=2, pace=pace)
    found = run(job, use)
    assert_same(found, run(FakeJob(servers=2, pace=pace), use, overlap=False))
    assert any(push.early for push in pushes(job)), "nothing has gone early"


def test_large_gradients_leave_before_the_step_and_small_ones_with_it() -> None:
    job = FakeJob(servers=1)
    run(job)
    [_, weight, *_] = early(job)
    push = pushes(job)[1]
    assert push.early == {weight.blocks[0]: weight.tag}
    assert len(push.blocks) == 3, "two biases and the narrow weight"
    kinds = [type(m).__name__ for _, m in job.sent if isinstance(m, Push | PushEarly)]
    assert kinds == ["PushEarly", "Push"] * 6


@pytest.mark.parametrize("prefix", ["fake:", "tcp:"])
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("number", [1, 4])
@pytest.mark.parametrize("kind", [Push, PushEarly])
def test_a_lost_message_costs_nothing(
    kind: type[Message], number: int, pace: Pace, prefix: str
) -> None:
    job, lost, come = FakeJob(servers=2, pace=pace), [], threading.Event()
    job.prefix = prefix

    def lose(role: str, message: Message) -> bool:
        if isinstance(message, PushEarly) and role == "server-1":
            come.set()  # server-0 has its own already
        is_it = isinstance(message, kind) and message.number == number  # type: ignore[attr-defined]  # both kinds have it
        if is_it and role == "server-1" and not lost:
            lost.append(message)
            return True
        return False

    def use(
        number: int, model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor
    ) -> None:
        come.clear()
        loss.backward()
        assert come.wait(PATIENCE_S), "nothing was sent early"
        step(number, model, optimizer, loss)

    job.lose = lose
    found = run(job, use)
    assert lost
    assert_same(found, run(FakeJob(servers=2, pace=pace), overlap=False))
    assert any(push.early for push in pushes(job))


def test_a_repeated_push_carries_everything() -> None:
    job, lost = FakeJob(servers=1), []

    def lose(_role: str, message: Message) -> bool:
        if isinstance(message, Push) and message.early and not lost:
            lost.append(message)
            return True
        return False

    job.lose = lose
    run(job)
    first, again = (push for push in pushes(job) if push.number == 1)
    assert first.early
    assert not again.early
    assert sorted(again.blocks) == sorted((*first.blocks, *first.early))


def test_a_server_that_has_lost_what_came_early_is_sent_everything() -> None:
    job = FakeJob(servers=2)

    def forget(role: str, message: Message) -> bool:
        if isinstance(message, Push):
            job.early[role].drop(message.incarnation)
        return False

    job.lose = forget
    found = run(job)
    assert_same(found, run(FakeJob(servers=2), overlap=False))


def test_where_there_is_no_room_it_is_asked_for_once() -> None:
    job = FakeJob(servers=1)
    job.early = {"server-0": EarlyGradients(most_bytes=10)}
    found = run(job)
    assert_same(found, run(FakeJob(servers=1), overlap=False))
    assert len(early(job)) == 1
    assert not any(push.early for push in pushes(job)[1:])


def test_a_skipped_batch_has_no_effect_and_the_next_one_has_its_own() -> None:
    found = run(FakeJob(servers=2), skip_some)
    assert_same(found, run(FakeJob(servers=2), skip_some, overlap=False))


def test_a_gradient_that_is_not_finite_is_not_sent_early() -> None:
    job = FakeJob(servers=2)
    with pytest.warns(StepWarning, match="not finite"):
        found = run(job, meet_infinity)
    with pytest.warns(StepWarning, match="not finite"):
        expected = run(FakeJob(servers=2), meet_infinity, overlap=False)
    assert_same(found, expected)
    refused = [push for push in pushes(job) if push.number == 3]
    assert not any(push.early or push.blocks for push in refused)


def test_gradients_that_grow_are_sent_with_the_backward_that_usually_ends_them() -> None:
    job = FakeJob(servers=1)
    run(job, accumulate_two)
    named = [sorted(push.early) for push in pushes(job)]
    assert named[0] == [], "what has grown by a second backward is sent anew"
    assert named[1], "the second backward is known to be the last by now"


def test_a_break_drops_what_was_sent_early() -> None:
    job = FakeJob(servers=1)
    with job.session() as session:
        model = make_model()
        optimizer = session.share(
            model, torch.optim.Adam(model.parameters(), lr=0.01), overlap=True
        )
        before = [parameter.detach().clone() for parameter in model.parameters()]
        for features in session.batches(FEATURES, BATCH, shuffle=False, task_size=12):
            model(features).square().mean().backward()
            break
        assert early(job)
        assert not pushes(job)
        assert_same([p.detach() for p in model.parameters()], before)
        del optimizer


def test_after_a_return_to_a_cut_nothing_of_before_is_named() -> None:
    job, left = FakeJob(servers=2), []

    def leave(_role: str, message: Message) -> bool:
        if isinstance(message, Push) and message.number == 3 and not left:
            left.append(message)
            job.leave_timeline()
        return False

    job.lose = leave
    with pytest.warns(StepWarning, match="step dropped"):
        run(job)
    assert left
    tags = {
        tag for push in pushes(job) if push.timeline == 1 for tag in push.early.values()
    }
    sent = {message.tag for message in early(job) if message.timeline == 1}
    assert tags
    assert tags <= sent


@pytest.mark.parametrize(
    "change", [lambda g: nn.utils.clip_grad_norm_(g, 0.1), lambda g: g[0].grad.mul_(0.5)]
)
def test_a_gradient_changed_after_it_was_sent_is_refused_by_name(
    change: Callable[[list[nn.Parameter]], object],
) -> None:
    def use(
        _number: int, model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor
    ) -> None:
        loss.backward()
        change(list(model.parameters()))
        optimizer.step()

    with pytest.raises(UsageError, match=r"'0.weight' was changed .* overlap=False"):
        run(FakeJob(servers=1), use)


def test_a_grad_scaler_that_unscales_is_refused() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def use(
        _number: int, _model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor
    ) -> None:
        scaled = scaler.scale(loss)
        assert isinstance(scaled, Tensor)
        scaled.backward()
        scaler.step(optimizer)
        scaler.update()

    with pytest.raises(UsageError, match="GradScaler"):
        run(FakeJob(servers=1), use)


@pytest.mark.parametrize(
    ("pace", "reason"),
    [
        (Sync(codec="bf16"), "overlap=True with codec=bf16"),
        (Async(push_every=2, pull_every=2), "overlap=True with async:push=2"),
        (LocalSGD(every=1), "overlap=True with local:1: what is pushed is how far"),
        (DiLoCo(every=5), "overlap=True with diloco:5"),
    ],
)
def test_what_cannot_go_early_is_refused_by_name(pace: Pace, reason: str) -> None:
    job = FakeJob(pace=pace)
    with job.session() as session:
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.raises(UsageError, match=f"share: {reason}"):
            session.share(model, optimizer, overlap=True)
        assert not job.plans, "nothing was shared"


def test_a_backward_outside_of_a_batch_sends_nothing() -> None:
    job = FakeJob(servers=1)
    with job.session() as session:
        model = make_model()
        session.share(model, torch.optim.SGD(model.parameters(), lr=0.1), overlap=True)
        model(FEATURES).square().mean().backward()
        assert not early(job)


def test_a_trainer_of_several_processes_sends_nothing_early() -> None:
    reason = why_not_early(Sync(), list(make_model().parameters()), processes=2)
    assert reason is not None
    assert "overlap=True with --ranks-per-trainer" in reason


def test_gradients_that_are_not_in_the_memory_of_the_cpu_are_refused_by_name() -> None:
    elsewhere = nn.Parameter(torch.empty(3, device="meta"))
    reason = why_not_early(Sync(), [elsewhere], processes=1)
    assert reason is not None
    assert "overlap=True with parameters on meta" in reason


def test_over_a_network_the_loops_thread_sends_nothing_in_backward() -> None:
    job, threads, come = FakeJob(servers=1), set(), threading.Event()
    job.prefix = "tcp:"

    def note(_role: str, message: Message) -> bool:
        if isinstance(message, PushEarly):
            threads.add(threading.current_thread().name)
            come.set()
        return False

    def use(
        number: int, model: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor
    ) -> None:
        come.clear()
        loss.backward()
        assert come.wait(PATIENCE_S)
        step(number, model, optimizer, loss)

    job.lose = note
    found = run(job, use)
    assert threads == {"paceline-early"}
    assert_same(found, run(FakeJob(servers=1), overlap=False))
    assert all(push.early for push in pushes(job) if push.blocks), "all have come in time"
    assert not any(t.name == "paceline-early" for t in threading.enumerate())

"""Guards at a trainer: bases of pushes, wild gradients, values that gradients are of."""

import math

import msgspec
import pytest
import torch
from torch import nn

import paceline
from paceline.config import FTRL, Async, Guards, LocalSGD, Pace, Sync
from paceline.ids import TaskKey
from paceline.messages.data import Push
from paceline.messages.shared import Lease, PartPlan, PartSpec, VoidSpan
from paceline.messages.trainer import Tick
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.holdings.parts import SharedPart
from paceline.trainer.tensors.gradients import FEWEST, REMEMBERED, Norms, norm_of
from tests.trainer.fake_job import FakeJob

BATCH, RECORDS = 2, 24
NORM = Async(guards=Guards(norm=4))


def train(job: FakeJob, sizes: list[float] | None = None) -> list[torch.Tensor]:
    """One step for each batch with gradients of these sizes; the values before each."""
    seen = []
    with job.session() as session:
        model = nn.Linear(3, 2, bias=False)
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
        data = torch.arange(RECORDS)
        batches = session.batches(data, BATCH, shuffle=False, task_size=RECORDS)
        for step, _ in enumerate(batches):
            seen.append(model.weight.detach().clone())
            size = 1.0 if sizes is None else sizes[step]
            model.weight.grad = torch.full_like(model.weight, size)
            optimizer.step()
    return seen


def pushes(job: FakeJob) -> list[Push]:
    return [push for push, _ in job.pushed]


def ticks(job: FakeJob) -> list[Tick]:
    return [message for _, message in job.sent if isinstance(message, Tick)]


def test_a_wild_push_is_sent_without_its_numbers_and_told_with_its_window() -> None:
    job = FakeJob(servers=2, pace=NORM)
    sizes = [1.0] * 12
    sizes[10] = 100.0
    train(job, sizes)
    void = [push for push in pushes(job) if push.is_void]
    assert len(void) == 2, "one for each server"
    assert all(not push.blocks for push in void)
    [refused] = [one for tick in ticks(job) for one in tick.refused]
    assert refused.window == void[0].window
    assert refused.window.spans[0].first == 10
    assert refused.norm == pytest.approx(100 * math.sqrt(6))
    assert "and usually" in refused.reason


def test_a_push_that_is_not_finite_takes_the_same_road() -> None:
    job = FakeJob(pace=Async())
    sizes = [1.0] * 12
    sizes[3] = math.nan
    with pytest.warns(StepWarning, match="not finite"):
        train(job, sizes)
    assert [push.is_void for push in pushes(job)] == [step == 3 for step in range(12)]
    [refused] = [one for tick in ticks(job) for one in tick.refused]
    assert (refused.norm, refused.window.spans[0].first) == (None, 3)
    assert "not finite" in refused.reason


def test_pushes_carry_the_values_that_their_gradients_are_of() -> None:
    job = FakeJob(pace=Async(guards=Guards(compensate=0.04)))
    seen = train(job)
    assert len(job.pushed) == len(seen)
    for (push, buffers), values in zip(job.pushed, seen, strict=True):
        assert push.then == push.blocks
        assert bytes(buffers[-1]) == values.numpy().tobytes()


def test_nothing_is_usual_before_some_were_seen() -> None:
    norms = Norms(NORM)
    wild = [torch.tensor([1e6])]
    for _ in range(FEWEST - 1):
        assert norms.look([torch.ones(1)]) is None
    assert norms.look(wild) is None, "the last that is not looked at"
    assert norms.look(wild) is not None
    assert norms.look([torch.ones(1)]) is None


def test_what_is_larger_for_good_is_usual_after_a_while() -> None:
    norms = Norms(NORM)
    for _ in range(REMEMBERED):
        norms.look([torch.ones(1)])
    refused = [norms.look([torch.full((1,), 9.0)]) is not None for _ in range(REMEMBERED)]
    assert refused == [True] * (REMEMBERED // 2 + 1) + [False] * (REMEMBERED // 2)


def test_a_norm_is_that_of_all_gradients_together() -> None:
    one, two = torch.randn(3, 4, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    together = torch.linalg.vector_norm(torch.cat([one.flatten(), two]))
    assert norm_of([one, two]) == pytest.approx(float(together), rel=1e-14)


@pytest.mark.parametrize(
    ("pace", "kind", "message"),
    [
        (Async(guards=Guards(scale=1)), torch.optim.Rprop, "scale .* Rprop takes its"),
        (Sync(guards=Guards(warmup=9)), torch.optim.ASGD, "warmup .* ASGD takes a"),
    ],
)
def test_optimizers_without_a_rate_are_refused(
    pace: Pace, kind: type[torch.optim.Optimizer], message: str
) -> None:
    with FakeJob(pace=pace).session() as session:
        model = nn.Linear(2, 1)
        with pytest.raises(paceline.UsageError, match=message):
            session.share(model, kind(model.parameters(), lr=0.1))  # type: ignore[call-arg]  # all have one


@pytest.mark.parametrize(
    ("guards", "message"),
    [
        (Guards(scale=1), "rows of FTRL follow from sums"),
        (Guards(compensate=1), "those of 'user' are rows"),
    ],
)
def test_rows_that_a_guard_means_nothing_for_are_refused(
    guards: Guards, message: str
) -> None:
    with FakeJob(pace=Async(guards=guards)).session() as session:
        model = paceline.Embedding("user", 2, optimizer=FTRL())
        with pytest.raises(paceline.UsageError, match=message):
            session.share(model)


def test_a_wild_delta_is_refused_as_a_gradient_is() -> None:
    job = FakeJob(pace=LocalSGD(every=1, guards=Guards(norm=4)))
    sizes = [1.0] * 12
    sizes[10] = 100.0
    train(job, sizes)
    assert [push.is_void for push in pushes(job)] == [step == 10 for step in range(12)]


def test_what_was_decided_before_an_edge_is_not_decided_again() -> None:
    spec = PartSpec(0, (), None, (), Async(guards=Guards(drop=0)))
    part = SharedPart(spec)
    part.plan = PartPlan(spec, (), 0, 1, {0: "server-1"})
    lease = Lease(1, TaskKey(0, 0, 0), 2, (3, 5), voids=(VoidSpan(0, 4, 5),))
    other = lease.voids[0]._replace(part=1)
    for batch, fate in ((2, "effect"), (3, "effect"), (4, "void"), (6, None)):
        part.deliver(lease, batch, 1)
        assert part.fate == fate
        assert part.judge == (None if fate else "server-1")
    part.deliver(msgspec.structs.replace(lease, voids=(other,)), 4, 1)
    assert part.fate == "effect", "another part's voids are its own"


def test_ages_are_counted_from_the_oldest_values_of_a_window() -> None:
    job = FakeJob(pace=Async(push_every=2, pull_every=1))
    train(job)
    bases = [push.base for push in pushes(job)]
    assert all(base is not None for base in bases)

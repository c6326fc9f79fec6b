"""torch's `GradScaler` finds every gradient, and each of its steps is one."""

import warnings

import pytest
import torch
from torch import nn
from torch.amp import GradScaler

from paceline.config import SGD, Async
from paceline.messages.data import Push
from paceline.messages.trainer import Tick
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.rows.embedding import Embedding
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob

IDS = torch.arange(24) % 5
BATCH = 4


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.rows = Embedding("rows", 3, optimizer=SGD(lr=0.1))
        self.out = nn.Linear(3, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.rows(ids)).square().sum()


def share(session: Session) -> tuple[Model, torch.optim.Optimizer]:
    model = Model()
    return model, session.share(model, torch.optim.SGD(model.out.parameters(), lr=0.1))


def values(model: Model) -> list[torch.Tensor]:
    model.eval()
    with torch.no_grad():
        return [model.rows(torch.arange(5)), *map(torch.clone, model.out.parameters())]


def train(
    scaler: GradScaler | None,
    *,
    unscale: bool = False,
    clip: float | None = None,
    overflow: tuple[int, ...] = (),
    every: int = 1,
) -> tuple[FakeJob, list[torch.Tensor], int]:
    """A run over all ids: the job, the values at its end, pushes refused."""
    job = FakeJob(servers=2)
    with job.session() as session:
        model, optimizer = share(session)
        batches = session.batches(IDS, BATCH, shuffle=False, task_size=24)
        for number, ids in enumerate(batches, 1):
            loss = model(ids)
            if number in overflow:
                loss = loss * torch.inf
            (loss if scaler is None else scaler.scale(loss)).backward()
            if number % every:
                continue
            if scaler is not None and unscale:
                scaler.unscale_(optimizer)
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            if scaler is None:
                if number not in overflow:
                    optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
            optimizer.zero_grad()
        return job, values(model), session.refused_nonfinite


def assert_equal(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def make_scaler() -> GradScaler:
    return GradScaler("cpu", init_scale=1024.0, growth_interval=2)


@pytest.mark.parametrize("unscale", [False, True], ids=["in step", "unscale_"])
def test_scaled_gradients_of_parameters_and_rows_are_unscaled(unscale: bool) -> None:
    _, expected, _ = train(None)
    _, found, refused = train(make_scaler(), unscale=unscale)
    assert_equal(found, expected)
    assert not refused


def test_clipping_after_unscaling_is_that_of_the_plain_gradient() -> None:
    _, expected, _ = train(None, clip=0.01)
    _, found, _ = train(make_scaler(), unscale=True, clip=0.01)
    assert_equal(found, expected)


@pytest.mark.parametrize("unscale", [False, True], ids=["in step", "unscale_"])
def test_a_step_that_overflows_counts_its_batch_and_changes_nothing(unscale: bool) -> None:
    scaler = make_scaler()
    _, expected, _ = train(None, overflow=(2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        job, found, refused = train(scaler, unscale=unscale, overflow=(2, 3))
    assert_equal(found, expected)
    assert job.records == len(IDS)
    assert len(job.of(Tick)) == len(IDS) // BATCH
    assert refused == 2
    assert scaler.get_scale() == 1024 / 2 / 2 * 2  # two overflows, then two in a row twice


def test_an_overflow_in_a_row_alone_is_found() -> None:
    with FakeJob().session() as session:
        model, optimizer = share(session)
        scaler = make_scaler()
        for ids in session.batches(IDS, BATCH, task_size=24):
            scaler.scale(model(ids)).backward()
            optimizer.param_groups[-1]["params"][-1].grad[0, 0] = torch.inf
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        assert scaler.get_scale() == 1024 / 2**6
        assert session.refused_nonfinite == 6


def test_a_model_of_rows_alone_can_be_scaled() -> None:
    with FakeJob().session() as session:
        rows, scaler = Embedding("rows", 1, optimizer=SGD(lr=1.0)), make_scaler()
        optimizer = session.share(rows)
        before = rows(torch.tensor([7])).item()
        for ids in session.batches(torch.tensor([7, 7]), 2):
            scaler.scale(rows(ids).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        assert rows(torch.tensor([7])).item() == pytest.approx(before - 2)


def test_gradients_that_nobody_unscaled_are_not_pushed_at_the_end() -> None:
    with pytest.warns(StepWarning, match="only the GradScaler knows their scale"):
        job, found, refused = train(make_scaler(), every=4)
    assert job.records == len(IDS)
    assert refused == 1
    assert all(values.abs().max() < 10 for values in found)


def train_two_parts(session: Session, batch_size: int) -> None:
    """The first step has a gradient that is not finite, in one of its two parts."""
    rows = session.embedding("rows", 3)
    model = nn.Sequential(rows, nn.Linear(3, 1))
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
    batches = session.batches(IDS, batch_size, shuffle=False, task_size=24)
    for number, ids in enumerate(batches):
        model(ids).sum().backward()
        if number == 0:
            model[1].weight.grad[0, 0] = torch.nan
        optimizer.step()
        optimizer.zero_grad()


def test_a_refused_step_of_several_parts_changes_none_of_them() -> None:
    job = FakeJob()
    with job.session() as session, pytest.warns(StepWarning, match="not finite"):
        train_two_parts(session, 24)
    pushes = job.of(Push)
    assert [push.part for push in pushes] == [0, 1]
    assert not any(push.rows or push.blocks for push in pushes)


def test_a_refused_step_does_not_spoil_those_that_are_pushed_with_it() -> None:
    job = FakeJob(pace=Async(push_every=2, pull_every=2))
    with job.session() as session:
        with pytest.warns(StepWarning, match="not finite"):
            train_two_parts(session, 12)
        assert session.refused_nonfinite == 2
    rowed, dense = job.of(Push)
    assert dense.blocks
    assert sum(rowed.rows[0].counts) == 5


def test_what_waits_for_a_step_is_no_part_of_the_state() -> None:
    with FakeJob().session() as session:
        model, optimizer = share(session)
        for ids in session.batches(IDS, 24):
            model(ids).backward()
            assert len(optimizer.param_groups[-1]["params"]) == 3
            assert optimizer.state_dict()["param_groups"][-1]["params"] == [0, 1]
            optimizer.zero_grad()
            assert not any(model.rows._table.waiting())
            optimizer.step()
            assert len(optimizer.param_groups[-1]["params"]) == 2

"""What ordinary models do with their parameters, and what becomes of it on the servers."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from paceline.config import Async
from paceline.errors import UsageError
from paceline.messages.data import Push
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob

IDS = torch.tensor([3, 3, 1, 0, 5, 5, 5, 2, 4, 1, 1, 0]).reshape(6, 2)
BATCH = 2
Make = Callable[[nn.Module], torch.optim.Optimizer]


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def adagrad(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adagrad(model.parameters(), lr=0.1)


class Rows(nn.Module):
    """A table of rows that torch holds, with gradients of the rows that were used."""

    def __init__(self, kind: type[nn.Embedding] | type[nn.EmbeddingBag]) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.table = kind(6, 3, sparse=True)
        self.out = nn.Linear(3, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.table(ids)).square().sum()


class Tied(nn.Module):
    """Words in, words out, through one weight."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.read = nn.Embedding(6, 3)
        self.write = nn.Linear(3, 6, bias=False)
        self.write.weight = self.read.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits = self.write(self.read(ids[:, 0]))
        return nn.functional.cross_entropy(logits, ids[:, 1])


class PartlyUsed(nn.Module):
    """One layer frozen, one never used, one used every other time."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.frozen = nn.Linear(2, 3).requires_grad_(False)
        self.unused = nn.Linear(3, 1)
        self.sometimes = nn.Linear(3, 3)
        self.always = nn.Linear(3, 1)
        self.calls = 0

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.frozen(ids.float())
        self.calls += 1
        if self.calls % 2:
            hidden = self.sometimes(hidden)
        return self.always(hidden).square().sum()


def plain(model: nn.Module, make: Make) -> nn.Module:
    optimizer = make(model)
    for ids in IDS.split(BATCH):
        model(ids).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def shared(session: Session, model: nn.Module, make: Make) -> nn.Module:
    optimizer = session.share(model, make(model))
    for ids in session.batches(IDS, BATCH, shuffle=False):
        model(ids).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def assert_same(found: nn.Module, expected: nn.Module) -> None:
    pairs = zip(found.named_parameters(), expected.parameters(), strict=True)
    for (name, mine), theirs in pairs:
        torch.testing.assert_close(mine.data, theirs.data, rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.parametrize("make", [sgd, adagrad])
@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_sparse_gradients_of_rows_take_the_steps_of_the_plain_loop(
    kind: type[nn.Embedding] | type[nn.EmbeddingBag], make: Make
) -> None:
    with FakeJob(servers=2).session() as session:
        found = shared(session, Rows(kind), make)
    with torch.sparse.check_sparse_tensor_invariants(enable=False):  # chosen, not warned of
        assert_same(found, plain(Rows(kind), make))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (torch.optim.Adam, "Adam moves rows without a gradient"),
        (
            lambda parameters: torch.optim.SGD(parameters, lr=0.1, weight_decay=0.1),
            "weight_decay of SGD changes rows without a gradient",
        ),
    ],
)
def test_an_optimizer_that_moves_every_row_is_refused_sparse_gradients(
    session: Session, make: type[torch.optim.Optimizer], text: str
) -> None:
    model = Rows(nn.Embedding)
    with pytest.raises(UsageError, match=f"'table.weight' .*{text}"):
        session.share(model, make(model.parameters()))
    model.table.requires_grad_(False)
    session.share(model, make(model.parameters()))


def test_a_tied_weight_is_one_parameter_and_stays_tied(
    job: FakeJob, session: Session
) -> None:
    found = shared(session, Tied(), adagrad)
    assert_same(found, plain(Tied(), adagrad))
    assert found.write.weight is found.read.weight
    assert len(job.plans[0].spec.parameters) == 1


def test_frozen_and_unused_parameters_stay_as_they_are(session: Session) -> None:
    def adam(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)

    found = shared(session, PartlyUsed(), adam)
    assert_same(found, plain(PartlyUsed(), adam))
    assert torch.equal(found.unused.weight, PartlyUsed().unused.weight)


class Adversaries(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.make, self.judge = nn.Linear(2, 2), nn.Linear(2, 1)

    def optimizers(self) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
        return sgd(self.make), sgd(self.judge)

    def train(self, real: torch.Tensor, make: torch.optim.Optimizer, judge: object) -> None:  # type: ignore[override]  # one batch of both
        fake = self.make(real)
        judge.zero_grad()
        (self.judge(fake.detach()).square() - self.judge(real)).sum().backward()
        judge.step()
        make.zero_grad()
        self.judge(fake).sum().backward()
        make.step()


@pytest.mark.parametrize("pace", [None, Async()], ids=["sync", "async"])
def test_two_parts_are_pushed_twice_a_batch(pace: Async | None) -> None:
    expected = Adversaries()
    optimizers = expected.optimizers()
    for ids in IDS.float().split(BATCH):
        expected.train(ids, *optimizers)
    job, found = FakeJob(servers=2, pace=pace), Adversaries()
    with job.session() as session:
        make, judge = found.optimizers()
        make = session.share(found.make, make)
        judge = session.share(found.judge, judge)
        for ids in session.batches(IDS.float(), BATCH, shuffle=False):
            found.train(ids, make, judge)
    assert_same(found, expected)
    pushes = [m for role, m in job.sent if role == "server-0" and isinstance(m, Push)]
    assert [push.part for push in pushes] == [1, 0] * 3
    assert all(push.blocks for push in job.of(Push) if push.part == 1)


def test_clipping_accumulation_and_a_schedule_are_those_of_the_plain_loop(
    session: Session,
) -> None:
    def run(model: nn.Module, optimizer: torch.optim.Optimizer, batches: object) -> None:
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=4)
        for number, ids in enumerate(batches, 1):
            (model(ids) / 2).backward()
            if number % 2 == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()

    expected, found = Tied(), Tied()
    run(expected, torch.optim.AdamW(expected.parameters()), [*IDS.split(1)])
    optimizer = session.share(found, torch.optim.AdamW(found.parameters()))
    run(found, optimizer, session.batches(IDS, 1, shuffle=False))
    assert_same(found, expected)

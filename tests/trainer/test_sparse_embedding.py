"""A plain `nn.Embedding(sparse=True)`: its rows travel and change as in torch."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from paceline.config import Async, Pace
from paceline.errors import UsageError
from paceline.messages.data import Pull, Push
from paceline.messages.shared import Message
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob

Make = Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "sparse adam": lambda p: torch.optim.SparseAdam(p, lr=0.1),
}
PACES = [None, Async()]
ROWS, DIM, BATCH = 30, 3, 4
IDS = torch.randint(0, ROWS, (32,), generator=torch.Generator().manual_seed(7))


@pytest.fixture(autouse=True)
def _explicitly_unchecked() -> Iterator[None]:
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        yield


def make_table(kind: type[nn.Module] = nn.Embedding) -> nn.Module:
    torch.manual_seed(3)
    return kind(ROWS, DIM, sparse=True)


def loss_of(table: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    found = table(ids.view(-1, 1) if isinstance(table, nn.EmbeddingBag) else ids)
    return (found - torch.linspace(-1, 1, DIM)).square().sum()


def train_alone(table: nn.Module, make: Make, ids: torch.Tensor = IDS) -> nn.Module:
    """The plain loop; equal ids of a batch are summed before the step, as on a server."""
    optimizer = make(table.parameters())
    for batch in ids.split(BATCH):
        loss_of(table, batch).backward()
        table.weight.grad = table.weight.grad.coalesce()
        optimizer.step()
        optimizer.zero_grad()
    return table


def train_shared(
    session: Session, table: nn.Module, make: Make, ids: torch.Tensor = IDS
) -> nn.Module:
    optimizer = session.share(table, make(table.parameters()))
    for batch in session.batches(ids, BATCH, shuffle=False, task_size=len(ids)):
        loss_of(table, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    return table


@pytest.mark.parametrize("pace", PACES, ids=["sync", "async"])
@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_trainer_equals_the_plain_loop_to_the_bit(
    name: str, kind: type[nn.Module], pace: Pace | None
) -> None:
    expected = train_alone(make_table(kind), OPTIMIZERS[name])
    with FakeJob(servers=3, pace=pace).session() as session:
        found = train_shared(session, make_table(kind), OPTIMIZERS[name])
    assert torch.equal(found.weight, expected.weight)
    assert not torch.equal(found.weight, make_table(kind).weight), "nothing was trained"


def test_a_batch_and_its_values_are_small_however_large_the_table() -> None:
    rows, dim, steps = 100_000, 16, 3
    ids = torch.randint(0, rows, (steps * 512,), generator=torch.Generator().manual_seed(1))
    table = nn.Embedding(rows, dim, sparse=True)
    job = FakeJob(servers=2, pace=Async())
    with job.session() as session:
        optimizer = session.share(table, torch.optim.SGD(table.parameters(), lr=0.1))
        begun = len(job.bytes)
        for batch in session.batches(ids, 512, shuffle=False, task_size=len(ids)):
            if batch is not None and begun and torch.equal(batch, ids[:512]):
                begun = len(job.bytes)  # behind the pull at the beginning
            table(batch).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    limit = steps * 512 * (8 + 4 * dim)
    pushed = sum(there for message, there, _ in job.bytes if isinstance(message, Push))
    pulled = sum(back for m, _, back in job.bytes[begun:] if isinstance(m, Pull))
    assert 0.9 * limit < pushed <= limit
    assert 0.9 * limit < pulled <= limit
    assert limit < 4 * rows * dim / 50, "no table that is large"


def test_another_trainers_rows_come_with_the_next_values() -> None:
    job, table = FakeJob(servers=2, pace=Async()), make_table()
    with job.session() as session:
        train_shared(session, table, OPTIMIZERS["sgd"])
        _write_elsewhere(job, row=29)
        train_again(session, IDS[:BATCH])
    assert table.weight[29].tolist() == [5.0] * DIM
    pulls = [m for m in job.of(Pull) if m.known]
    assert pulls, "nothing was known"


@pytest.mark.parametrize(
    "pace", [Async(pull_every=2), Async(push_every=2, pull_every=4)], ids=str
)
def test_values_that_come_while_the_trainer_computes_are_all_there_at_the_end(
    pace: Async,
) -> None:
    job = FakeJob(servers=2, pace=pace)
    with job.session() as session:
        found = train_shared(session, make_table(), OPTIMIZERS["adagrad"])
    assert any(message.known for message in job.of(Pull)), "all rows came every time"
    plan = job.plans[0]
    shared = [job.shards[plan.placement[b.slot]].blocks[b.slot].values for b in plan.blocks]
    assert torch.equal(found.weight, torch.cat(shared))
    assert not torch.equal(found.weight, make_table().weight)


def test_a_lost_answer_is_asked_for_again_and_nothing_is_missed() -> None:
    job = FakeJob(servers=2, pace=Async())
    lost = []

    def lose(role: str, message: Message) -> bool:
        is_third = role == "server-1" and isinstance(message, Pull)
        if is_third and message.known and len(lost) < 3:
            lost.append(message)
            return True
        return False

    job.lose = lose
    with job.session() as session:
        found = train_shared(session, make_table(), OPTIMIZERS["adagrad"])
    assert len(lost) == 3
    assert torch.equal(
        found.weight, train_alone(make_table(), OPTIMIZERS["adagrad"]).weight
    )


def test_after_a_return_all_rows_come_again() -> None:
    job, table = FakeJob(servers=2, pace=Async()), make_table()
    with job.session() as session:
        optimizer = session.share(table, OPTIMIZERS["sgd"](table.parameters()))
        batches = session.batches(IDS, BATCH, shuffle=False)
        for number, batch in enumerate(batches):
            loss_of(table, batch).backward()
            if number == 2:
                _write_elsewhere(job, row=29, is_noted=False)  # the cut holds another past
                job.leave_timeline()
                with pytest.warns(StepWarning, match="step dropped"):
                    optimizer.step()
                begun = len(job.sent)
            else:
                optimizer.step()
            optimizer.zero_grad()
            if number == 3:
                break
    first = [m for _, m in job.sent[begun:] if isinstance(m, Pull)][:2]
    assert [message.known for message in first] == [{}, {}]
    assert table.weight[29].tolist() == [5.0] * DIM


def _write_elsewhere(job: FakeJob, row: int, *, is_noted: bool = True) -> None:
    """As if somebody else had changed a row on its server."""
    plan = job.plans[0]
    [block] = [b for b in plan.blocks if b.start <= row * DIM < b.stop]
    shard, at = job.shards[plan.placement[block.slot]], row - block.start // DIM
    shard.blocks[block.slot].values[at] = 5.0
    if is_noted:
        shard.changes(block.slot).note(torch.tensor([at]))


def train_again(session: Session, ids: torch.Tensor) -> None:
    """A second loop of what is shared already."""
    for batch in session.batches(ids, BATCH, shuffle=False):
        assert len(batch)
        session.stop("seen")


def test_accumulated_rows_are_summed_and_stay_sparse() -> None:
    def accumulate(table: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        for ids in IDS.split(2 * BATCH):
            loss_of(table, ids).backward()
            optimizer.step()
            optimizer.zero_grad()

    expected, found = make_table(), make_table()
    accumulate(expected, OPTIMIZERS["sparse adam"](expected.parameters()))
    job = FakeJob(servers=3, pace=Async(push_every=2))
    with job.session() as session:
        train_shared(session, found, OPTIMIZERS["sparse adam"])
    torch.testing.assert_close(found.weight, expected.weight, rtol=1e-6, atol=1e-6)
    pushes = job.of(Push)
    assert len(pushes) == 3 * len(IDS) // (2 * BATCH)
    assert all(push.sparse_blocks and not push.blocks for push in pushes)


def test_rows_that_are_not_finite_are_refused_as_a_whole() -> None:
    job, table = FakeJob(servers=2), make_table()
    with job.session() as session:
        optimizer = session.share(table, OPTIMIZERS["sgd"](table.parameters()))
        for number, batch in enumerate(session.batches(IDS, BATCH, shuffle=False)):
            weight = float("inf") if number == 0 else 0.0
            (weight * loss_of(table, batch)).backward()
            if number == 0:
                with pytest.warns(StepWarning, match="not finite"):
                    optimizer.step()
            else:
                optimizer.step()
            optimizer.zero_grad()
        assert session.refused_nonfinite == 1
    assert torch.equal(table.weight, make_table().weight)


def test_a_step_counts_for_blocks_that_none_of_its_rows_lie_in() -> None:
    ids = torch.tensor([0, 0, 1, 1, 0, 1, 29, 29])  # the last block's first batch is late
    expected = train_alone(make_table(), OPTIMIZERS["sparse adam"], ids)
    with FakeJob(servers=3).session() as session:
        found = train_shared(session, make_table(), OPTIMIZERS["sparse adam"], ids)
    assert torch.equal(found.weight, expected.weight)


def test_a_weight_that_is_not_its_own_memory_gets_its_rows() -> None:
    table = make_table()
    table.weight = nn.Parameter(table.weight.detach().t().contiguous().t())
    assert not table.weight.is_contiguous()
    expected = train_alone(make_table(), OPTIMIZERS["adagrad"])
    with FakeJob(servers=3, pace=Async()).session() as session:
        train_shared(session, table, OPTIMIZERS["adagrad"])
    torch.testing.assert_close(table.weight, expected.weight)


def test_momentum_moves_other_rows_and_travels_whole() -> None:
    def make(parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    job, expected = FakeJob(servers=2), train_alone(make_table(), make)
    with job.session() as session:
        found = train_shared(session, make_table(), make)
    torch.testing.assert_close(found.weight, expected.weight)
    assert not any(push.sparse_blocks for push in job.of(Push))


def test_a_weight_that_a_layer_uses_too_travels_whole() -> None:
    job, model = FakeJob(), nn.ModuleList([make_table(), nn.Linear(DIM, ROWS, bias=False)])
    model[1].weight = model[0].weight
    with job.session() as session:
        session.share(model, OPTIMIZERS["sgd"](model.parameters()))
    assert not job.plans[0].spec.parameters[0].has_sparse_gradients


def test_a_dense_gradient_of_a_sparse_weight_has_the_rows_that_are_not_zero() -> None:
    job, table = FakeJob(servers=2), make_table()
    with job.session() as session:
        optimizer = session.share(table, OPTIMIZERS["sgd"](table.parameters()))
        for _ in session.batches(IDS[:BATCH], BATCH):
            table.weight[4].sum().backward()
            optimizer.step()
    expected = make_table().weight.detach().clone()
    expected[4] -= 0.1
    assert torch.equal(table.weight, expected)


def test_sparse_adam_is_refused_what_has_dense_gradients() -> None:
    model = nn.Sequential(make_table(), nn.Linear(DIM, 1))
    text = r"'1.weight' .*SparseAdam does not support dense gradients\): share the model in"
    with FakeJob().session() as session:
        with pytest.raises(UsageError, match=text):
            session.share(model, torch.optim.SparseAdam(model.parameters()))
        session.share(model[0], torch.optim.SparseAdam(model[0].parameters()))
        session.share(model[1], torch.optim.Adam(model[1].parameters()))

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

from paceline.config import Async, Sync
from paceline.errors import UsageError
from paceline.messages.data import Push
from paceline.messages.trainer import Tick
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.rows.embedding import Embedding
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob

FEATURES = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]


def make_model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(
        [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.1}],
        betas=(0.8, 0.99),
    )


def plain_loop(make: MakeOptimizer, steps_of: list[int]) -> list[torch.Tensor]:
    """Parameters of the same job as a plain loop that steps over so many batches each."""
    model = make_model()
    optimizer = make(model)
    batches = iter(FEATURES.split(2))
    for count in steps_of:
        for _ in range(count):
            model(next(batches)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return list(model.parameters())


def shared_loop(
    session: Session, make: MakeOptimizer, *, zero_first: bool = False, every: int = 1
) -> nn.Module:
    model = make_model()
    optimizer = session.share(model, make(model))
    batches = session.batches(FEATURES, 2, shuffle=False, task_size=6)
    for number, features in enumerate(batches, 1):
        if zero_first:
            optimizer.zero_grad()
        model(features).square().sum().backward()
        if number % every == 0:
            optimizer.step()
            if not zero_first:
                optimizer.zero_grad()
    return model


def assert_same(model: nn.Module, expected: list[torch.Tensor]) -> None:
    for found, parameter in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(found.data, parameter.data, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("make", [sgd, adam])
@pytest.mark.parametrize("pace", [Sync(), Async()], ids=str)
@pytest.mark.parametrize("zero_first", [False, True])
def test_one_trainer_equals_the_plain_loop(
    make: MakeOptimizer, pace: Sync | Async, zero_first: bool
) -> None:
    with FakeJob(servers=2, pace=pace).session() as session:
        model = shared_loop(session, make, zero_first=zero_first)
    assert_same(model, plain_loop(make, [1] * 6))


@pytest.mark.parametrize("zero_first", [False, True])
def test_pushes_of_several_batches_sum_their_gradients(zero_first: bool) -> None:
    job = FakeJob(servers=2, pace=Async(push_every=2, pull_every=2))
    with job.session() as session:
        model = shared_loop(session, sgd, zero_first=zero_first)
    pushes = [m for role, m in job.sent if role == "server-0" and isinstance(m, Push)]
    windows = [push.window.spans[0][1:] for push in pushes]
    assert windows == [(0, 1), (2, 2), (0, 1), (2, 2)]
    assert_same(model, plain_loop(sgd, [2, 1, 2, 1]))


def test_accumulation_by_the_user_is_one_window_and_the_end_flushes() -> None:
    job = FakeJob(servers=2)
    with job.session() as session:
        model = shared_loop(session, sgd, every=4)
    assert [len(tick.window.spans) for tick in job.of(Tick)] == [2, 1]
    assert job.records == 12
    assert_same(model, plain_loop(sgd, [4, 2]))


def test_a_window_ends_at_an_edge_and_before_a_replay_amid_accumulation() -> None:
    job = FakeJob()
    job.edges = (1,)
    with job.session() as session:
        model = shared_loop(session, sgd, every=6)
    windows = [[span[1:] for span in tick.window.spans] for tick in job.of(Tick)]
    assert windows == [[(0, 1)], [(2, 2)], [(0, 1)], [(2, 2)]]
    assert_same(model, plain_loop(sgd, [2, 1, 2, 1]))


def test_a_gradient_that_was_stepped_is_not_flushed_again() -> None:
    """The last batch is skipped while the gradients of the one before still lie there."""
    job = FakeJob()
    with job.session() as session:
        model = make_model()
        optimizer = session.share(model, sgd(model))
        for number, features in enumerate(session.batches(FEATURES, 2, shuffle=False)):
            if number == 5:
                continue
            optimizer.zero_grad()
            model(features).square().sum().backward()
            optimizer.step()
    assert job.records == 12
    assert_same(model, plain_loop(sgd, [1] * 5))


def test_every_block_travels_to_the_server_that_holds_it() -> None:
    job = FakeJob(servers=2)
    with job.session() as session:
        shared_loop(session, sgd)
    placement = job.plans[0].placement
    pushes = [(role, m) for role, m in job.sent if isinstance(m, Push)]
    for role, push in pushes[:2]:
        mine = [slot for slot, server in placement.items() if server == role]
        assert list(push.blocks) == mine


@pytest.mark.parametrize(
    ("pace", "layers", "dtype", "together"),
    [
        (Sync(), 4, torch.float32, (8,)),
        (Sync(), 3, torch.float32, ()),
        (Sync(codec="fp16"), 4, torch.float32, ()),
        (Sync(codec="fp16"), 4, torch.float64, ()),  # which it does not code
    ],
)
def test_many_small_gradients_share_a_buffer_unless_there_is_a_codec(
    pace: Sync, layers: int, dtype: torch.dtype, together: tuple[int, ...]
) -> None:
    job = FakeJob(pace=pace)
    with job.session() as session:
        model = nn.Sequential(*(nn.Linear(5, 5, dtype=dtype) for _ in range(layers)))
        optimizer = session.share(model, sgd(model))
        for features in session.batches(FEATURES.repeat(1, 2)[:, :5], 12):
            model(features.to(dtype)).sum().backward()
            optimizer.step()
    [push] = job.of(Push)
    assert len(push.blocks) == 2 * layers
    assert push.together == together


def test_a_parameter_without_gradient_is_left_out() -> None:
    job = FakeJob()
    with job.session() as session:
        model = make_model()
        optimizer = session.share(model, sgd(model))
        before = [parameter.clone() for parameter in model[0].parameters()]
        for features in session.batches(FEATURES, 12):
            model[2](features.repeat(1, 2)[:, :5]).sum().backward()
            optimizer.step()
    parameters = job.plans[0].spec.parameters
    left = {parameters[b.parameter].names[0] for b in job.plans[0].blocks}
    [push] = job.of(Push)
    assert len(push.blocks) == len(left) - 2
    assert all(map(torch.equal, before, model[0].parameters()))


def test_rows_and_dense_are_one_step() -> None:
    job = FakeJob(servers=2)
    ids = torch.arange(12) % 4
    with job.session() as session:
        model = nn.ModuleDict({"rows": Embedding("user", 3), "out": nn.Linear(3, 1)})
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
        before = model["rows"](torch.arange(4)).detach()
        for batch in session.batches(ids, 4, shuffle=False):
            model["out"](model["rows"](batch)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        after = model["rows"](torch.arange(4)).detach()
    assert (before != after).all()
    assert len(job.of(Push)) == 2 * 3
    assert {sum(m.rows[0].counts) for m in job.of(Push) if m.rows} <= {1, 2, 3, 4}


def test_an_embedding_shared_before_is_stepped_with_the_model() -> None:
    job = FakeJob()
    with job.session() as session:
        rows = session.embedding("user", 3)
        model = nn.Sequential(rows, nn.Linear(3, 1))
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for batch in session.batches(torch.arange(4), 2):
            model(batch).sum().backward()
            optimizer.step()
    assert [tick.part for tick in job.of(Tick)] == [0, 1, 0, 1]
    assert all(m.rows and not m.blocks for m in job.of(Push) if m.part == 0)


def test_a_model_of_embeddings_needs_no_optimizer() -> None:
    job = FakeJob()
    with job.session() as session:
        model = Embedding("user", 3)
        optimizer = session.share(model)
        for batch in session.batches(torch.arange(4), 2):
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert job.records == 4


def test_zero_grad_drops_rows_that_no_step_used() -> None:
    job = FakeJob()
    with job.session() as session:
        model = Embedding("user", 3)
        optimizer = session.share(model)
        for batch in session.batches(torch.arange(4), 4):
            model(batch).sum().backward()
            optimizer.zero_grad()
            optimizer.step()
    assert not any(push.rows for push in job.of(Push))


def train(
    session: Session,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    before_step: Callable[[], None],
) -> None:
    for batch in session.batches(torch.arange(8), 4):
        model(batch).sum().backward()
        before_step()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("where", ["dense", "row"])
def test_gradients_that_are_not_finite_push_an_empty_window(where: str) -> None:
    job = FakeJob(servers=2)
    with job.session() as session:
        rows, dense = Embedding("user", 3), nn.Linear(3, 1)
        model = nn.Sequential(rows, dense)
        optimizer = session.share(model, torch.optim.SGD(dense.parameters(), lr=0.1))
        before = [p.clone() for p in dense.parameters()]

        def spoil() -> None:
            if where == "dense":
                dense.weight.grad[0, 1] = torch.inf
            else:
                optimizer.param_groups[-1]["params"][-1].grad[0, 0] = torch.nan

        with pytest.warns(StepWarning, match="not finite") as warned:
            train(session, model, optimizer, spoil)
        assert session.refused_nonfinite == 2
    assert len(warned) == 1
    assert all(map(torch.equal, before, dense.parameters()))
    assert not any(push.blocks or push.rows for push in job.of(Push))
    assert job.records == 8


def test_a_sum_that_overflows_is_no_reason_to_refuse() -> None:
    job = FakeJob()
    with job.session() as session:
        model = nn.Linear(2, 1, bias=False)
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.0))
        for _ in session.batches(torch.arange(4), 4):
            model.weight.grad = torch.full((1, 2), 3e38)
            optimizer.step()
        assert session.refused_nonfinite == 0


@pytest.mark.filterwarnings("default:.*lr_scheduler.step")
def test_a_scheduler_made_before_sharing_counts() -> None:
    job = FakeJob()
    with job.session() as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        model = make_model()
        inner = torch.optim.SGD(model.parameters(), lr=1.0)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(inner, 0.5)
        optimizer = session.share(model, inner)
        for features in session.batches(FEATURES, 4):
            model(features).sum().backward()
            optimizer.step()
            scheduler.step()
    assert [push.hyper[0]["lr"] for push in job.of(Push)] == [1.0, 0.5, 0.25]


@pytest.mark.filterwarnings("default:.*lr_scheduler.step")
def test_a_scheduler_on_the_shared_optimizer_counts(session: Session, job: FakeJob) -> None:
    model = make_model()
    optimizer = session.share(model, torch.optim.Adam(model.parameters(), lr=1.0))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for features in session.batches(FEATURES, 6):
        model(features).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    pushes = [push for role, push in job.sent if role == "server-0" and type(push) is Push]
    assert [push.hyper[0]["lr"] for push in pushes] == [1.0, 0.5]
    assert pushes[0].hyper[0]["betas"] == (0.9, 0.999)


def test_state_dict_holds_hyper_parameters(session: Session) -> None:
    model = make_model()
    inner = torch.optim.SGD(model.parameters(), lr=0.5)
    optimizer = session.share(model, inner)
    saved = optimizer.state_dict()
    inner.param_groups[0]["lr"] = 0.1
    optimizer.load_state_dict(saved)
    assert inner.param_groups[0]["lr"] == 0.5
    assert optimizer.param_groups is inner.param_groups
    with pytest.raises(UsageError, match="state lives on the servers"):
        optimizer.load_state_dict({**saved, "state": {0: {}}})
    with pytest.raises(UsageError, match="expected 1 parameter groups, got 0"):
        optimizer.load_state_dict({"state": {}, "param_groups": []})


def test_a_closure_is_refused(session: Session) -> None:
    model = make_model()
    optimizer = session.share(model, sgd(model))
    with pytest.raises(UsageError, match="evaluates the model again"):
        optimizer.step(lambda: 0.0)


def test_a_group_cannot_be_added(session: Session) -> None:
    model = make_model()
    optimizer = session.share(model, sgd(model))
    with pytest.raises(UsageError, match="cannot grow"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})


def test_step_without_a_batch_is_refused(session: Session) -> None:
    model = make_model()
    optimizer = session.share(model, sgd(model))
    with pytest.raises(UsageError, match=r"batches\(loader\.dataset, batch_size=\.\.\.\)"):
        optimizer.step()
    for features in session.batches(FEATURES, 12):
        model(features).sum().backward()
        optimizer.step()
        with pytest.raises(UsageError, match="step\\(\\) without a batch"):
            optimizer.step()
    with pytest.raises(UsageError, match=r"none is open; a loop that takes batches ahead"):
        optimizer.step()

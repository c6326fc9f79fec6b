"""Rows that name no optimizer learn by that of their `share`, as torch's sparse ones do."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.config import Async, JobConfig, Pace, Sync
from paceline.errors import JobFailed, UsageError
from paceline.launch.embedded import EmbeddedJob
from paceline.watch.summary import Ending, Verdict

IDS = torch.tensor([[7, 3], [9, 3], [7, 7], [1, 2], [3, 5], [5, 1], [7, 9], [2, 3]] * 3)
TARGETS = torch.linspace(-1, 1, len(IDS) * 4).reshape(len(IDS), 4)
ROWS, DIM, BATCH, TASK = 10, 4, 2, 8
Make = Callable[[Iterable[Any]], torch.optim.Optimizer]

ASYNC = Async()


@pytest.fixture(autouse=True)
def _unchecked() -> Iterator[None]:
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        yield


def nobody() -> list[Any]:
    """A parameter group of torch's that holds nothing."""
    return [{"params": []}]


MakeJob = Callable[..., EmbeddedJob]
kept: list[Any] = []  # loops that nobody looks at any more


@pytest.fixture
def make_job(tmp_path: Path) -> Iterator[MakeJob]:
    jobs: list[EmbeddedJob] = []

    def make(trainers: int = 1, pace: Pace = ASYNC) -> EmbeddedJob:
        config = JobConfig(
            run="rows", trainers=trainers, servers=2, timeout_s=60.0, pace=pace
        )
        jobs.append(EmbeddedJob(config, tmp_path / "job"))
        return jobs[-1]

    yield make
    for job in jobs:
        with contextlib.suppress(JobFailed):  # which the trainers hear of, too
            job.close()


def rows_of(module: nn.Module) -> torch.Tensor:
    module.eval()
    found = module(torch.arange(ROWS)).detach().clone()
    module.train()
    return found


def trained(
    job: EmbeddedJob, make: Make, use: Callable[[paceline.Session, Any], None]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows before and after a loop whose rate halves every three steps."""
    session = job.session("trainer-0")
    rows = paceline.Embedding("rows", DIM, init=paceline.Uniform(0.5))
    optimizer = session.share(rows, make(nobody()))
    begin = rows_of(rows)
    use(session, optimizer)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)
    data = (IDS, TARGETS)
    for ids, targets in session.batches(data, BATCH, shuffle=False, task_size=TASK):
        loss_of(rows(ids), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
    return begin, rows_of(rows)


def loss_of(rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (rows.sum(1) - targets).pow(2).sum()


def plain(begin: torch.Tensor, make: Make, gamma: float = 0.5) -> torch.Tensor:
    """The same by torch alone, with gradients of rows."""
    module = nn.Embedding(ROWS, DIM, sparse=True, _weight=begin.clone())
    optimizer = make(module.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=gamma)
    for ids, targets in zip(IDS.split(BATCH), TARGETS.split(BATCH), strict=True):
        loss_of(module(ids), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
    return module.weight.detach()


ADAM = {"lr": 0.05, "betas": (0.8, 0.95)}
# What is given to `share`, and what torch has for a sparse nn.Embedding; to the bit or not.
TWINS: dict[str, tuple[Make, Make, bool]] = {
    "Adam": (
        lambda p: torch.optim.Adam(p, **ADAM),
        lambda p: torch.optim.SparseAdam(p, **ADAM),
        True,
    ),
    "SGD": (
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1),
        False,
    ),
    "Adagrad": (
        lambda p: torch.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.1),
        lambda p: torch.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.1),
        False,
    ),
}


def nothing(session: paceline.Session, optimizer: Any) -> None:
    del session, optimizer


@pytest.mark.parametrize("name", TWINS)
def test_rows_follow_class_rate_and_schedule_as_torch_does(
    name: str, make_job: MakeJob
) -> None:
    make, twin, is_exact = TWINS[name]
    begin, after = trained(make_job(), make, nothing)
    expected = plain(begin, twin)
    assert not torch.equal(begin, after)
    if is_exact:
        assert torch.equal(after, expected)
    else:  # where a product and a sum are rounded once, and where twice
        torch.testing.assert_close(after, expected, rtol=2e-6, atol=2e-7)


def test_a_rate_that_the_script_sets_counts_for_the_rows(make_job: MakeJob) -> None:
    def stop(session: paceline.Session, optimizer: Any) -> None:
        del session
        optimizer.param_groups[0]["lr"] = 0.0

    begin, after = trained(make_job(), TWINS["Adam"][0], stop)
    assert torch.equal(begin, after)


def test_a_schedule_of_the_session_counts_for_the_rows(make_job: MakeJob) -> None:
    def stop(session: paceline.Session, optimizer: Any) -> None:
        session.schedule(optimizer, lambda records: 0.0 * records)

    begin, after = trained(make_job(), TWINS["SGD"][0], stop)
    assert torch.equal(begin, after)


def test_rows_with_an_optimizer_of_their_own_keep_its_rate(make_job: MakeJob) -> None:
    session = make_job().session("trainer-0")
    own = paceline.SGD(lr=0.5)
    rows = paceline.Embedding("rows", 1, optimizer=own, init=paceline.Zeros())
    optimizer = session.share(rows, torch.optim.SGD(nobody(), lr=0.0))
    for ids in session.batches(torch.zeros(4, dtype=torch.int64), 1):
        rows(ids).sum().backward()
        optimizer.step()
    assert rows_of(rows)[0].item() == -2.0


def test_rows_without_any_optimizer_are_those_of_adagrad(make_job: MakeJob) -> None:
    session = make_job().session("trainer-0")
    rows = paceline.Embedding("rows", 1, init=paceline.Zeros())
    session.share(rows)
    assert rows.spec.optimizer == paceline.Adagrad(lr=0.05)
    assert not rows.spec.follows


def test_rows_that_are_shared_already_keep_what_they_have(make_job: MakeJob) -> None:
    session = make_job().session("trainer-0")
    rows = session.embedding("rows", 2)
    model = nn.Sequential(rows, nn.Linear(2, 1))
    session.share(model, torch.optim.Adam(model.parameters(), lr=0.1))
    again = paceline.Embedding("rows", 2)
    session.share(again, torch.optim.Adam(nobody(), lr=0.1))
    assert again.spec == rows.spec
    assert rows.spec.optimizer == paceline.Adagrad(lr=0.05)


def test_rows_of_two_models_follow_one_optimizer(make_job: MakeJob) -> None:
    session = make_job().session("trainer-0")

    def share(optimizer: torch.optim.Optimizer | None) -> paceline.Embedding:
        rows = paceline.Embedding("rows", 2)
        session.share(rows, optimizer)
        return rows

    first = share(torch.optim.Adam(nobody(), lr=0.1))
    match = (
        r"'rows' are shared already, and follow .*Adam\(lr=0.1.*this model's is SGD\(lr="
    )
    with pytest.raises(UsageError, match=match):
        share(torch.optim.SGD(nobody(), lr=0.1))
    with pytest.raises(UsageError, match="'rows' are shared already"):
        share(torch.optim.Adam(nobody(), lr=0.2))
    assert share(torch.optim.Adam(nobody(), lr=0.1)).spec == first.spec
    assert share(None).spec == first.spec


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda p: torch.optim.RMSprop(p), "RMSprop has no lazy twin: SGD, Adagrad"),
        (lambda p: torch.optim.Adam(p, amsgrad=True), "amsgrad of Adam has no lazy twin"),
        (lambda p: torch.optim.SGD(p, maximize=True), "maximize of SGD has no lazy twin"),
        (
            lambda p: torch.optim.SGD(p, momentum=0.5, dampening=0.1),
            "dampening of SGD has no lazy twin",
        ),
        (lambda p: torch.optim.Adagrad(p, lr_decay=0.1), "lr_decay of Adagrad has no"),
    ],
)
def test_what_has_no_twin_is_refused_with_what_to_write(
    make: Make, match: str, make_job: MakeJob
) -> None:
    session = make_job().session("trainer-0")
    model = nn.Sequential(paceline.Embedding("rows", 2), nn.Linear(2, 1))
    with pytest.raises(UsageError, match=match) as caught:
        session.share(model, make(model.parameters()))
    write = "say what its rows learn by, such as Embedding('rows', 2, optimizer=paceline."
    assert write in str(caught.value)


def test_several_groups_are_refused_with_what_to_write(make_job: MakeJob) -> None:
    session = make_job().session("trainer-0")
    model = nn.Sequential(paceline.Embedding("rows", 2), nn.Linear(2, 1))
    groups = [{"params": [p]} for p in model.parameters()]
    with pytest.raises(UsageError, match=r"'rows' follows .* 2 parameter groups, each"):
        session.share(model, torch.optim.Adam(groups, lr=0.1))


def test_momentum_that_comes_later_is_refused_by_name(make_job: MakeJob) -> None:
    def later(session: paceline.Session, optimizer: Any) -> None:
        del session
        optimizer.param_groups[0]["momentum"] = 0.9

    with pytest.raises(UsageError, match=r"'rows' follows .* began without momentum"):
        trained(make_job(), TWINS["SGD"][0], later)


def test_in_rounds_one_rate_is_that_of_all_rows(make_job: MakeJob) -> None:
    job = make_job(trainers=2, pace=Sync())
    errors: list[BaseException] = []

    def train(index: int) -> None:
        try:
            session = job.session(f"trainer-{index}")
            rows = paceline.Embedding("rows", DIM)
            optimizer = session.share(rows, torch.optim.SGD(nobody(), lr=0.1))
            optimizer.param_groups[0]["lr"] = 0.1 * (1 + index)
            for ids in session.batches(IDS, BATCH, task_size=TASK):
                rows(ids).sum().backward()
                optimizer.step()
        except BaseException as error:  # noqa: BLE001  (looked at by the test)
            errors.append(error)

    threads = [threading.Thread(target=train, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads), "a trainer hangs"
    assert any("one update has one of each" in str(error) for error in errors), errors


def test_a_job_that_has_begun_goes_on_with_the_rows_that_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = paceline.Adagrad(lr=0.05)
    caplog.set_level("INFO", logger="paceline.trainer")

    def run(is_resumed: bool, optimizer: Any) -> tuple[torch.Tensor, torch.Tensor]:
        config = JobConfig(run=f"again-{is_resumed}", trainers=1, servers=1, timeout_s=60.0)
        job = EmbeddedJob(config, tmp_path / "job", is_resumed=is_resumed)
        session = job.session("trainer-0")
        rows = paceline.Embedding("rows", DIM, optimizer=optimizer)
        shared = session.share(rows, torch.optim.Adam(nobody(), lr=0.3))
        begin = rows_of(rows)
        batches = session.batches((IDS, TARGETS), BATCH, shuffle=False, task_size=TASK)
        kept.append(batches)  # a loop that nobody looks at would be left as by break
        for number, (ids, targets) in enumerate(batches):
            if number == 3 and not is_resumed:
                session.save()
                job.close(Verdict(Ending.FAILED, "the power went"))
                session.membership.driver.close()
                return begin, begin
            loss_of(rows(ids), targets).backward()
            shared.step()
            shared.zero_grad()
        assert (rows.spec.optimizer, rows.spec.follows) == (own, False)
        found = rows_of(rows)
        job.close()
        return begin, found

    begin, _ = run(False, own)
    assert "go on with" not in caplog.text
    kept.pop().close()
    _, after = run(True, None)
    kept.pop()
    assert "rows of 'rows' go on with Adagrad(lr=0.05" in caplog.text
    expected = plain(begin, lambda p: torch.optim.Adagrad(p, lr=0.05), gamma=1.0)
    torch.testing.assert_close(after, expected, rtol=2e-6, atol=2e-7)


def test_a_table_of_adam_goes_on_at_its_step(make_job: MakeJob) -> None:
    """Ids of one server at first, then of the other: both have counted all steps."""
    session = make_job().session("trainer-0")
    rows = paceline.Embedding("rows", 1, optimizer=paceline.Adam(lr=0.1))
    optimizer = session.share(rows)
    begin = rows_of(rows)
    ids = torch.tensor([1] * 5 + list(range(ROWS)))
    for batch in session.batches(ids, 1, shuffle=False, task_size=len(ids)):
        rows(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    module = nn.Embedding(ROWS, 1, sparse=True, _weight=begin.clone())
    twin = torch.optim.SparseAdam(module.parameters(), lr=0.1)
    for batch in ids:
        module(batch[None]).sum().backward()
        twin.step()
        twin.zero_grad()
    assert torch.equal(rows_of(rows), module.weight.detach())

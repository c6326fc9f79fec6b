"""The next batch is read, and its rows are asked for, before it is delivered."""

from typing import Any

import pytest
import torch
from torch import nn

from paceline.config import Adagrad, Async, Pace, Sync, Uniform
from paceline.ids import COORDINATOR
from paceline.messages.data import Pull, PullRows, Push
from paceline.messages.trainer import AskRecords, Tick
from paceline.trainer.rows.embedding import Embedding
from paceline.trainer.rows.prefetch import find_ids, ids_at
from paceline.trainer.session import Session
from paceline.trainer.share.optimizer import SharedOptimizer
from tests.trainer.fake_job import FakeJob

IDS = torch.arange(24).reshape(12, 2) % 7
LABELS = torch.linspace(-1, 1, 12)


def as_dict(batch: tuple[torch.Tensor, torch.Tensor]) -> dict[str, Any]:
    return {"inputs": [batch[0]], "labels": batch[1]}


@pytest.mark.parametrize(
    ("lay_out", "take"),
    [
        (lambda b: b, lambda b: b[0]),
        (lambda b: b, lambda b: b[0][:, 1]),
        (lambda b: b, lambda b: b[0][:, 1:]),
        (lambda b: b, lambda b: b[0].unsqueeze(1)),
        (as_dict, lambda b: b["inputs"][0][:, :1]),
    ],
)
@pytest.mark.parametrize("next_length", [1, 4])
def test_ids_are_found_again_in_the_next_batch(
    lay_out: Any, take: Any, next_length: int
) -> None:
    ids, labels = torch.arange(24).reshape(8, 3), torch.zeros(8)
    batch = lay_out((ids[:4], labels[:4]))
    after = lay_out((ids[4 : 4 + next_length], labels[4 : 4 + next_length]))
    place = find_ids(batch, take(batch))
    assert place is not None
    found = ids_at(after, place)
    assert found is not None
    torch.testing.assert_close(found, take(after), rtol=0, atol=0)


def test_ids_that_a_model_computes_are_not_found() -> None:
    ids = torch.arange(24).reshape(8, 3)
    assert find_ids((ids,), ids + 1) is None
    assert find_ids((ids,), ids.int()) is None
    assert find_ids((ids,), ids[2:5]) is None
    assert find_ids("no tensors", ids) is None


def test_a_batch_of_another_layout_holds_no_ids() -> None:
    ids = torch.arange(24).reshape(8, 3)
    place = find_ids((ids, ids), ids)
    assert place is not None
    for other in [(), (ids[:, :2],), {"ids": ids}, ("text",), None, (ids.T,)]:
        assert ids_at(other, place) is None


class Scorer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = Embedding("id", 3, optimizer=Adagrad(lr=0.05), init=Uniform(0.5))
        self.weights = nn.Linear(6, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.weights(self.rows(ids).flatten(1)).squeeze(1)


def share_scorer(session: Session) -> tuple[Scorer, SharedOptimizer]:
    torch.manual_seed(1)
    model = Scorer()
    optimizer = torch.optim.SGD(model.weights.parameters(), lr=0.1)
    return model, session.share(model, optimizer)


def train(session: Session, *, is_foreseen: bool = True) -> Scorer:
    model, optimizer = share_scorer(session)
    for ids, labels in session.batches((IDS, LABELS), 2, shuffle=False, task_size=6):
        looked_up = ids if is_foreseen else ids.clone()
        nn.functional.mse_loss(model(looked_up), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


@pytest.mark.parametrize("pace", [Sync(), Async()], ids=str)
def test_rows_of_the_next_batch_are_asked_for_behind_the_push(pace: Pace) -> None:
    job = FakeJob(servers=1, pace=pace)
    with job.session() as session:
        train(session)
    asked = [type(m) for _, m in job.sent if isinstance(m, Push | Pull | PullRows)]
    step = "".join(kind.__name__[-1] for kind in asked)  # push h, rows s, dense values l
    assert step.count("h") == 6
    assert step.count("hsl") == 4, f"every batch of a task but the last: {step}"
    assert step.count("s") == 6, f"no row is asked for twice: {step}"


def test_who_brings_rows_of_a_round_is_not_asked_for_dense_values_of_a_part_without() -> (
    None
):
    job = FakeJob(servers=2, pace=Sync())
    with job.session() as session:
        rows = session.embedding("id", 3)
        optimizer = session.share(nn.ModuleList([rows]))
        ids = torch.tensor([[0, 1], [2, 3], [4, 5], [0, 0], [6, 7], [1, 1]])
        for (one,) in session.batches((ids,), 1, shuffle=False, task_size=6):
            rows(one).sum().backward()
            optimizer.step()
    asked = [(role, m) for role, m in job.sent if isinstance(m, Pull | PullRows)]
    at = [(role, m.at_round, type(m)) for role, m in asked if m.at_round]
    brought = {(role, number) for role, number, kind in at if kind is PullRows}
    waited = {(role, number) for role, number, kind in at if kind is Pull}
    assert brought
    assert not brought & waited
    servers = ("server-0", "server-1")
    rounds = {(role, number) for role in servers for number in range(1, 6)}
    assert rounds <= brought | waited, "all say that they have applied the round"


@pytest.mark.parametrize("pace", [Sync(), Async()], ids=str)
def test_foreseen_rows_are_those_that_a_lookup_would_have_found(pace: Pace) -> None:
    with FakeJob(servers=2, pace=pace).session() as session:
        foreseen = train(session)
    with FakeJob(servers=2, pace=pace).session() as session:
        looked_up = train(session, is_foreseen=False)
    for mine, theirs in zip(foreseen.parameters(), looked_up.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def test_of_tensors_the_ids_alone_are_gathered_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gathered: list[torch.dtype] = []

    def gather(tensor: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        gathered.append(tensor.dtype)
        return tensor.index_select(0, index)

    monkeypatch.setattr("paceline.data.source._gather", gather)
    with FakeJob(servers=1, pace=Async()).session() as session:
        train(session)
    assert gathered.count(LABELS.dtype) == 6, "each batch at its turn"
    assert gathered.count(IDS.dtype) == 10, "and of every one but a task's first before it"


def train_on_changed(session: Session, *, in_place: bool) -> Scorer:
    """As `train`, on ids that the script changes before it looks them up."""
    model, optimizer = share_scorer(session)
    for ids, labels in session.batches((IDS, LABELS), 2, shuffle=False, task_size=6):
        changed = ids.mul_(3).add_(100) if in_place else ids * 3 + 100
        nn.functional.mse_loss(model(changed), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def test_ids_that_a_script_changes_in_place_read_their_own_rows() -> None:
    with FakeJob(servers=1, pace=Async()).session() as session:
        changed = train_on_changed(session, in_place=True)
    with FakeJob(servers=1, pace=Async()).session() as session:
        computed = train_on_changed(session, in_place=False)
    for mine, theirs in zip(changed.parameters(), computed.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def test_rows_are_asked_for_again_when_a_push_had_to_be_repeated() -> None:
    job = FakeJob(servers=1, pace=Async())
    lost: list[Push] = []

    def lose(_: str, message: object) -> bool:
        is_first = isinstance(message, Push) and message.number == 2 and not lost
        lost.extend([message] if is_first else [])
        return is_first

    job.lose = lose
    with job.session() as session:
        train(session)
    kinds = [type(m).__name__ for _, m in job.sent]
    at = kinds.index("Push", kinds.index("Push") + 1)
    again = kinds.index("Push", at + 1)
    assert "PullRows" in kinds[at:again]
    assert kinds[again + 1] == "Tick" or "PullRows" in kinds[again : again + 3]
    assert kinds[again:].count("PullRows") >= 2, kinds[again:]


class Unreadable:
    """A data set whose record 3 cannot be read."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        self.read.append(index)
        if index == 3:
            raise OSError("record 3 is gone")
        return torch.ones(1)


def test_what_cannot_be_read_ahead_fails_when_it_is_its_turn(session: Session) -> None:
    model = nn.Linear(1, 1)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
    data, steps = Unreadable(), 0
    for batch in session.batches(data, 1, shuffle=False, task_size=4):
        model(batch).sum().backward()
        optimizer.step()
        steps += 1
    assert steps == 7, "three batches before it, four of the other task"
    assert data.read.count(3) == 1


def test_quick_steps_are_told_together_and_before_anything_is_asked() -> None:
    job = FakeJob(servers=1, pace=Async())
    with job.session() as session:
        model = nn.Linear(1, 1)
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
        told = []
        for batch in session.batches(torch.ones(10, 1), 1, shuffle=False, task_size=10):
            if len(told) == 4:
                assert session.records == 4
            model(batch).sum().backward()
            optimizer.step()
            told.append(sum(tick.records for tick in job.of(Tick)))
    assert told == [1, 1, 1, 1, 4, 4, 4, 4, 4, 10]
    kinds = [type(m) for role, m in job.sent if role == COORDINATOR]
    assert kinds[kinds.index(AskRecords) - 1] is Tick


def test_a_slow_step_is_told_at_once() -> None:
    job = FakeJob(servers=1, pace=Async())
    with job.session() as session:
        model = nn.Linear(1, 1)
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for batch in session.batches(torch.ones(4, 1), 1, shuffle=False, task_size=4):
            model(batch).sum().backward()
            job.clock.advance(0.1)
            optimizer.step()
    assert [tick.records for tick in job.of(Tick)] == [1, 1, 1, 1]

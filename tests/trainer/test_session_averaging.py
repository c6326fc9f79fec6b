"""A trainer's part in the average: its buffers go, the average comes when the loop ends."""

import pytest
import torch
from torch import nn

from paceline.messages.data import AskTracked, KeepTracked
from paceline.messages.shared import AverageShare, Message, Waiting
from paceline.messages.trainer import BuffersKept, TrackedKept
from paceline.messages.waits import Wait
from paceline.trainer.engine.tracked_objects import Tracker
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import quick_session

DATA = torch.arange(24.0).reshape(12, 2)
OTHERS = 99  # number under which another trainer has kept its buffers


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))


def let_average(job: FakeJob) -> None:
    """The coordinator asks for buffers, then for an average with another trainer's."""
    other = make_model()
    norm = other[0]
    assert isinstance(norm, nn.BatchNorm1d)
    norm.running_mean = torch.tensor([100.0, 200.0])
    norm.num_batches_tracked.fill_(50)
    tracker = Tracker()
    tracker.add_model(0, other, None)
    job.states[OTHERS] = tracker.encode_averaged()

    def average(job: FakeJob) -> Waiting:
        kept = [m for m in job.of(BuffersKept) if isinstance(m, BuffersKept)][-1]
        shares = (AverageShare(kept.number, kept.records), AverageShare(OTHERS, 36))
        return Waiting(wait=Wait("state", "buffers are averaged"), average=shares)

    def end(job: FakeJob) -> Waiting:
        kept = [m for m in job.of(TrackedKept) if isinstance(m, TrackedKept)][-1]
        assert kept.is_average
        job.tracked_at_end = kept.number
        return Waiting(wait=Wait("cut", "a cut is being taken"))

    asked = Waiting(wait=Wait("state", "to average"), buffers=True)
    job.waits = [lambda _: asked, average, end]


def train(session: Session) -> tuple[torch.Tensor, nn.BatchNorm1d]:
    """The running mean after the last step, and the model's norm after the loop."""
    model = make_model()
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.01))
    norm = model[0]
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_mean is not None
    mean = norm.running_mean.clone()
    for batch in session.batches(DATA, 4, shuffle=False, task_size=12):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = norm.running_mean.clone()
    return mean, norm


def test_the_average_by_records_comes_when_the_loop_ends(
    job: FakeJob, session: Session
) -> None:
    let_average(job)
    mean, norm = train(session)
    [kept] = [m for m in job.of(BuffersKept) if isinstance(m, BuffersKept)]
    assert kept.records == 12
    expected = (12 * mean.double() + 36 * torch.tensor([100.0, 200.0])) / 48
    assert torch.equal(norm.running_mean, expected.float())
    assert norm.num_batches_tracked == 50


@pytest.mark.parametrize("lost", [KeepTracked, AskTracked, BuffersKept, TrackedKept])
def test_a_lost_reply_changes_nothing(lost: type[Message]) -> None:
    job = FakeJob()
    let_average(job)
    left = [lost, lost]

    def lose(_role: str, message: Message) -> bool:
        return type(message) in left and not left.remove(type(message))

    job.lose = lose
    with quick_session(job) as session:
        mean, norm = train(session)
    assert not left
    expected = (12 * mean.double() + 36 * torch.tensor([100.0, 200.0])) / 48
    assert torch.equal(norm.running_mean, expected.float())


def test_a_return_before_the_end_leaves_the_buffers_as_they_are(job: FakeJob) -> None:
    let_average(job)
    average = job.waits[1]
    seen: list[torch.Tensor] = []

    def leave(job: FakeJob) -> Waiting:
        job.leave_timeline()
        seen.append(torch.zeros(1))
        return Waiting(wait=Wait("state", "left"))

    job.waits[1:] = [average, leave]
    with quick_session(job) as session:
        _, norm = train(session)
    assert seen, "nothing was left"
    assert norm.num_batches_tracked == 6, "its own three batches, twice"

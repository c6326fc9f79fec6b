from collections.abc import Callable

import pytest
import torch

from paceline.config import Async
from paceline.errors import JobFailed
from paceline.ids import COORDINATOR
from paceline.messages.data import PullRows, Push
from paceline.messages.shared import Message
from paceline.messages.trainer import JoinTrainer
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.rows.embedding import Embedding
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA, quick_session, run_loop, share_line, stepper


def test_a_lost_reply_is_asked_for_again_on_a_new_connection(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    lost: set[tuple[str, str]] = set()
    connections = job.connections

    def lose_first(role: str, message: Message) -> bool:
        key = (role, type(message).__name__)
        is_first = key not in lost
        lost.add(key)
        return is_first

    job.lose = lose_first
    run_loop(session, stepper(model, optimizer))
    assert model.weight.item() == DATA.sum().item()
    assert ("server-1", "Push") in lost
    assert (COORDINATOR, "Tick") in lost
    assert job.connections > connections + 5


def test_a_coordinator_that_stays_away_fails_the_job(job: FakeJob) -> None:
    job.lose = lambda role, _: role == COORDINATOR
    session = None
    with pytest.raises(JobFailed, match="no coordinator for"):
        session = quick_session(job)
    assert session is None


def test_a_step_on_a_timeline_that_is_gone_is_dropped(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    seen: list[float] = []

    def step(batch: torch.Tensor) -> None:
        seen.append(batch[0].item())
        model(batch).sum().backward()
        if len(seen) == 2:
            job.leave_timeline()
        optimizer.step()
        if len(seen) != 2:
            optimizer.zero_grad()

    with pytest.warns(StepWarning, match="step dropped: timeline 0 was left"):
        run_loop(session, step)
    assert seen == [0, 2, 0, 2, 4, 6, 8, 10]
    assert model.weight.item() == DATA.sum().item() + 1  # batch 0 counted before as well
    assert len(job.of(JoinTrainer)) == 2


@pytest.mark.parametrize("ask", [lambda s: s.records, lambda s: s.log(loss=1.0)])
def test_a_question_between_batch_and_step_may_find_the_timeline_gone(
    job: FakeJob, session: Session, ask: Callable[[Session], object]
) -> None:
    model, optimizer = share_line(session)

    def step(batch: torch.Tensor) -> None:
        model(batch).sum().backward()
        if job.timeline == 0:
            job.leave_timeline()
            ask(session)
        optimizer.step()
        optimizer.zero_grad()

    with pytest.warns(StepWarning, match="timeline 0 was left"):
        run_loop(session, step, batch_size=6)
    assert model.weight.item() == DATA.sum().item()


def test_rows_are_read_on_whatever_timeline_there_is(
    job: FakeJob, session: Session
) -> None:
    module = session.embedding("user", 2)
    first = module(torch.arange(5)).detach()
    job.leave_timeline()
    assert torch.equal(module(torch.arange(5)), first)
    assert [m.timeline for m in job.of(PullRows)][-1] == 1


def test_rows_of_an_abandoned_batch_are_not_pushed() -> None:
    job = FakeJob(pace=Async(push_every=2, pull_every=2))
    with job.session() as session:
        model = Embedding("user", 1)
        optimizer = session.share(model)
        batches = enumerate(session.batches(torch.arange(8), 2, shuffle=False, task_size=4))
        for number, batch in batches:
            model(batch).sum().backward()
            if number == 1:
                job.leave_timeline()
                with pytest.warns(StepWarning):
                    optimizer.step()
            else:
                optimizer.step()
    rows = [sum(m.rows[0].counts) for m in job.of(Push)]
    assert rows == [4, 4, 4]  # refused, then each task once

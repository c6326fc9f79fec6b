"""Batches ahead of their steps: what the coordinator may answer meanwhile."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from paceline.config import Sync, parse_pace
from paceline.errors import Preempted, UsageError
from paceline.ids import COORDINATOR
from paceline.messages.shared import Message, Waiting
from paceline.messages.trainer import AskLease, HandBack, StageOver
from paceline.messages.waits import Wait
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA, run_loop, share_line, stepper

ALL = DATA.flatten().tolist()
SPENT = Waiting(wait=Wait("lease", "no task is left that nobody works on"), is_spent=True)


@pytest.fixture
def asked(job: FakeJob, monkeypatch: pytest.MonkeyPatch) -> deque[Waiting]:
    """What questions for work ahead are answered first; spent when nothing is left."""
    answers: deque[Waiting] = deque()
    real = job.answer

    def answer(role: str, message: Message, buffers: Any) -> Any:
        is_ahead = isinstance(message, AskLease) and message.is_ahead
        if role == COORDINATOR and is_ahead and message.timeline == job.timeline:
            if answers:
                job.sent.append((role, message))
                return answers.popleft(), ()
            reply = real(role, message, buffers)
            return (SPENT, ()) if isinstance(reply[0], StageOver) else reply
        return real(role, message, buffers)

    monkeypatch.setattr(job, "answer", answer)
    return answers


def held(session: Session, number: int, batch_size: int = 2) -> Iterator[torch.Tensor]:
    """Batches of tasks of six records, ``number`` of them ahead of their steps."""
    ahead: deque[torch.Tensor] = deque()
    said = {"shuffle": False, "task_size": 6, "lookahead": number}
    for batch in session.batches(DATA, batch_size, **said):  # type: ignore[arg-type]  # as they are
        ahead.append(batch)
        if len(ahead) > number:
            yield ahead.popleft()
    yield from ahead


def run(session: Session, number: int) -> tuple[list[float], float]:
    model, optimizer = share_line(session)
    step, seen = stepper(model, optimizer), []
    for batch in held(session, number):
        seen += batch.flatten().tolist()
        step(batch)
    return seen, model.weight.item()


@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_who_is_put_off_for_a_moment_asks_again(
    job: FakeJob, session: Session, asked: deque[Waiting], number: int
) -> None:
    asked += [Waiting(wait=Wait("servers", "servers are not there yet"))] * 3
    assert run(session, number) == (ALL, sum(ALL))
    assert not asked
    assert job.records == len(DATA)


@pytest.mark.parametrize("number", [1, 2, 3, 5, 8])
def test_the_iterator_ends_where_no_work_is_left(
    job: FakeJob, session: Session, asked: deque[Waiting], number: int
) -> None:
    assert not asked
    assert run(session, number) == (ALL, sum(ALL))
    assert job.records == len(DATA)
    assert not job.of(HandBack)


@pytest.mark.parametrize("number", [2, 3])
def test_who_has_lost_what_it_holds_between_two_batches_begins_again(
    job: FakeJob, session: Session, asked: deque[Waiting], number: int
) -> None:
    """What is leased then is no batch behind the one in hand."""
    del asked
    step = stepper(*share_line(session))
    batches = iter(session.batches(DATA, 2, shuffle=False, task_size=6, lookahead=number))
    first = next(batches)
    job.leave_timeline()
    assert session.records == 0  # any question makes it join again
    with pytest.raises(Preempted, match="begins again"):
        next(batches)
    with pytest.raises(Preempted, match="begins again"):
        step(first)
    assert job.records == 0


@pytest.mark.parametrize("number", [1, 2])
def test_who_loses_what_it_holds_while_it_asks_begins_again(
    job: FakeJob, session: Session, asked: deque[Waiting], number: int
) -> None:
    """Nothing of the new timeline is leased for who stands on the old one."""
    left, real = False, job.answer

    def answer(role: str, message: Message, buffers: Any) -> Any:
        nonlocal left
        if isinstance(message, AskLease) and message.is_ahead and not left:
            left = True
            job.leave_timeline()
        return real(role, message, buffers)

    job.answer = answer  # type: ignore[method-assign]  # this job's alone
    assert not asked
    with pytest.raises(Preempted, match="begins again"):
        run(session, number)
    assert left
    assert not job.held, "it has leased what it cannot train"


def test_a_pause_costs_nothing_while_a_lease_has_more(
    job: FakeJob, session: Session, asked: deque[Waiting]
) -> None:
    """Before a pace changes leases go back; who gets the same again goes on."""
    del asked
    model, optimizer = share_line(session)
    step, seen = stepper(model, optimizer), []
    for number, batch in enumerate(held(session, 1)):
        seen += batch.flatten().tolist()
        step(batch)
        session.membership.carrier.protocol.asking.pauses = number == 0
    assert seen == ALL
    assert model.weight.item() == sum(ALL)
    assert len(job.of(HandBack)) == 1
    assert job.records == len(DATA)


def test_a_loop_that_is_left_hands_back_what_is_ahead(
    job: FakeJob, session: Session, asked: deque[Waiting]
) -> None:
    del asked
    model, optimizer = share_line(session)
    step = stepper(model, optimizer)
    for number, batch in enumerate(held(session, 2)):
        step(batch)
        if number == 1:
            break
    assert session.records == job.records == 4
    assert [next(iter(back.acked)) for back in job.of(HandBack)] == [1]  # type: ignore[attr-defined]  # a HandBack
    assert not job.held


def test_what_is_in_hand_when_a_loop_is_left_is_handed_back(
    job: FakeJob, session: Session, asked: deque[Waiting]
) -> None:
    """The iterator has ended before: that it is left only the next loop tells."""
    del asked
    model, optimizer = share_line(session)
    step = stepper(model, optimizer)
    for number, batch in enumerate(held(session, 3)):
        step(batch)
        if number == 3:  # two are in hand
            break
    assert not job.of(HandBack)
    assert run_loop(session, step) == ALL
    [back] = job.of(HandBack)
    assert back.acked == (0,)  # type: ignore[attr-defined]  # a HandBack
    assert job.records == 8 + len(DATA)


def test_a_step_over_several_batches_is_refused(
    job: FakeJob, session: Session, asked: deque[Waiting]
) -> None:
    """At the end nobody sees how many of those in hand it is for."""
    del asked
    model, optimizer = share_line(session)
    batches = held(session, 1)
    model(next(batches)).sum().backward()
    model(next(batches)).sum().backward()
    with pytest.raises(UsageError, match=r"2 batches came since .* lookahead=1"):
        optimizer.step()
    assert job.records == 0


@pytest.mark.parametrize("held_by_script", [0, 1, 3])
def test_who_holds_more_or_less_than_it_says_is_refused(
    job: FakeJob, session: Session, asked: deque[Waiting], held_by_script: int
) -> None:
    del asked
    step, hand = stepper(*share_line(session)), deque[torch.Tensor]()
    batches = iter(session.batches(DATA, 2, shuffle=False, task_size=6, lookahead=2))

    def go_on() -> None:
        for batch in batches:
            hand.append(batch)
            if len(hand) > held_by_script:
                step(hand.popleft())

    with pytest.raises(UsageError, match=r"lookahead=2"):
        go_on()
    assert job.records <= 2


def test_a_part_that_is_stepped_more_seldom_is_refused(
    job: FakeJob, session: Session, asked: deque[Waiting]
) -> None:
    assert not asked
    assert not job.records
    often, seldom = share_line(session), share_line(session)
    each, rare = stepper(*often), stepper(*seldom)
    batches = held(session, 1)
    each(next(batches))
    second = next(batches)
    each(second)
    with pytest.raises(UsageError, match="of every shared model for every batch"):
        rare(second)


@pytest.mark.parametrize(
    ("pace", "why"),
    [
        (Sync(backup=1, late="again"), "trained again"),
        (parse_pace("async:drop=0,old=again"), "trained again"),
        (parse_pace("local:8"), "goes on"),
    ],
)
def test_paces_that_cannot_wait_for_what_is_in_hand_are_refused(
    session: Session, pace: Any, why: str
) -> None:
    model = nn.Linear(1, 1)
    session.share(model, torch.optim.SGD(model.parameters(), lr=0.1), pace=pace)
    with pytest.raises(UsageError, match=f"lookahead=1: .*{why}"):
        session.batches(DATA, 2, lookahead=1)

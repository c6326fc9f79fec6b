"""What is sent of a changed model, when, and what a gone timeline does to it."""

import pytest
import torch

from paceline.errors import UsageError
from paceline.messages.data import Pull, Push
from paceline.messages.shared import Message
from paceline.messages.trainer import BeginStage, Save
from paceline.messages.values import ClaimValues, SetValues, ValuesSet
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA, share_line, stepper

ORDER = (SetValues, ValuesSet, Save, BeginStage, Push, Pull)


def kinds(job: FakeJob, since: int) -> list[str]:
    return [type(m).__name__ for _, m in job.sent[since:] if isinstance(m, ORDER)]


def test_before_a_loop_a_cut_has_what_was_changed(job: FakeJob, session: Session) -> None:
    model, _ = share_line(session)
    model.weight.data.fill_(3.0)
    since = len(job.sent)
    batches = iter(session.batches(DATA, 2, shuffle=False))
    next(batches)
    found = kinds(job, since)
    order = ["SetValues", "ValuesSet", "Save", "Pull", "BeginStage"]
    assert [name for name in dict.fromkeys(found) if name in order] == order
    assert model.weight.item() == 3.0
    [claim] = job.of(ClaimValues)
    assert isinstance(claim, ClaimValues)
    assert (claim.call, claim.stage) == (0, 0)


def test_what_was_not_changed_costs_no_question(job: FakeJob, session: Session) -> None:
    model, optimizer = share_line(session)
    for batch in session.batches(DATA, 2, shuffle=False):
        stepper(model, optimizer)(batch)
    session.close()
    assert job.of(ClaimValues) == []


def test_within_a_loop_they_are_sent_before_the_push(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    batches = iter(session.batches(DATA, 2, shuffle=False))
    model(next(batches)).sum().backward()
    with torch.no_grad():
        model.weight.fill_(3.0)
    since = len(job.sent)
    optimizer.step()
    found = kinds(job, since)
    assert found.index("SetValues") < found.index("Push")
    assert "Save" not in found
    assert model.weight.item() == 4.0


def test_a_loop_that_is_left_sends_what_was_changed(job: FakeJob, session: Session) -> None:
    model, optimizer = share_line(session)
    for batch in session.batches(DATA, 2, shuffle=False):
        stepper(model, optimizer)(batch)
        with torch.no_grad():
            model.weight.fill_(7.0)
        break
    assert session.records >= 0
    assert len(job.of(SetValues)) == 1


def test_what_is_saved_in_a_loop_has_what_was_changed(
    job: FakeJob, session: Session
) -> None:
    model, _ = share_line(session)
    batches = iter(session.batches(DATA, 2, shuffle=False))
    next(batches)
    with torch.no_grad():
        model.weight.fill_(7.0)
    since = len(job.sent)
    session.save()
    assert kinds(job, since) == ["SetValues", "ValuesSet", "Save"]


def leaves_at(job: FakeJob, kind: type[Message]) -> None:
    """The timeline is left as the first message of a kind comes, which is lost."""
    is_left = False

    def lose(_: str, message: Message) -> bool:
        nonlocal is_left
        if isinstance(message, kind) and not is_left:
            is_left = True
            job.leave_timeline()
            return True
        return False

    job.lose = lose


@pytest.mark.parametrize("kind", [ClaimValues, SetValues, ValuesSet, Save])
def test_before_a_loop_they_are_sent_again_on_the_next_timeline(
    job: FakeJob, session: Session, kind: type[Message]
) -> None:
    model, _ = share_line(session)
    model.weight.data.fill_(3.0)
    leaves_at(job, kind)
    next(iter(session.batches(DATA, 2, shuffle=False)))
    assert model.weight.item() == 3.0
    last = job.of(SetValues)[-1]
    assert isinstance(last, SetValues)
    assert last.timeline == 1


def test_within_a_loop_they_are_forgotten_with_their_timeline(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    batches = iter(session.batches(DATA, 2, shuffle=False))
    model(next(batches)).sum().backward()
    with torch.no_grad():
        model.weight.fill_(3.0)
    leaves_at(job, SetValues)
    with pytest.warns(StepWarning, match="timeline 0 was left"):
        optimizer.step()
    next(batches)
    assert model.weight.item() == 0.0
    assert len({m.timeline for m in job.of(SetValues) if isinstance(m, SetValues)}) == 1


def test_a_refusal_names_the_parameter_and_both_ways_out(
    job: FakeJob, session: Session
) -> None:
    job.num_trainers = 3
    model, optimizer = share_line(session)
    batches = iter(session.batches(DATA, 2, shuffle=False))
    model(next(batches)).sum().backward()
    with torch.no_grad():
        model.weight.fill_(3.0)
    with pytest.raises(UsageError, match=r"'weight' was changed .* 3 trainers") as told:
        optimizer.step()
    assert "before session.share, or call session.set_values(model)" in str(told.value)

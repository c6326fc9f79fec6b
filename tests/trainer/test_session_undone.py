"""A cut that a script went on from turns out unreadable: the script begins again."""

import pytest
import torch

from paceline.errors import Preempted
from paceline.messages.data import Upload
from paceline.messages.trainer import AskLease, Leave, Save
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA, run_loop, share_line, stepper


def skip_cut(job: FakeJob, cut: int) -> None:
    """All return to an older one."""
    job.undone = ((cut, cut),)
    job.leave_timeline()


def test_a_script_that_is_past_a_loop_begins_again_if_its_end_is_undone(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    run_loop(session, stepper(model, optimizer))
    skip_cut(job, 1)
    with pytest.raises(Preempted, match="cut 1, which a loop of it had ended with"):
        run_loop(session, stepper(model, optimizer))
    asked = [m for m in job.of(AskLease) if isinstance(m, AskLease) and m.stage == 1]
    assert asked == [], "nothing is asked for in a loop that is too far"
    session.close()
    assert [m.is_done for m in job.of(Leave) if isinstance(m, Leave)] == [False]


def test_a_loop_that_was_left_by_break_is_undone_with_the_cut_it_waited_for(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    job.cut = 4
    for batch in session.batches(DATA, 2, shuffle=False):
        stepper(model, optimizer)(batch)
        break
    assert session.records >= 0
    skip_cut(job, 4)
    with pytest.raises(Preempted, match="cut 4"):
        run_loop(session, stepper(model, optimizer))
    saves = [m for m in job.of(Save) if isinstance(m, Save) and m.left is not None]
    assert len(saves) == 1, "leaving again is no break"


def test_a_loop_goes_on_when_the_cut_that_is_undone_was_taken_in_it(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    run_loop(session, stepper(model, optimizer))
    model.weight.data.zero_()
    seen: list[float] = []

    def step(batch: torch.Tensor) -> None:
        seen.append(batch[0].item())
        model(batch).sum().backward()
        if len(seen) == 2:
            job.cut = 2
            session.save()
            skip_cut(job, 2)
        optimizer.step()
        optimizer.zero_grad()

    with pytest.warns(StepWarning, match="timeline 0 was left"):
        run_loop(session, step)
    assert seen == [0, 2, 0, 2, 4, 6, 8, 10]


def test_trained_values_are_never_sent_as_initial_ones(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    run_loop(session, stepper(model, optimizer))
    uploads = len(job.of(Upload))
    job.plans.clear()  # the cut that took the skipped one's place does not have the part
    skip_cut(job, 7)
    with pytest.raises(Preempted, match="part 0 was trained, and lies in no cut"):
        run_loop(session, stepper(model, optimizer))
    assert len(job.of(Upload)) == uploads

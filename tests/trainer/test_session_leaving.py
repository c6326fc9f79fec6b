"""A trainer that is told to leave: what was stepped counts, the rest goes to others."""

import contextlib
import sys

import pytest
import torch

from paceline.config import Async
from paceline.errors import Preempted, UsageError
from paceline.ids import TaskKey
from paceline.messages.data import Push
from paceline.messages.shared import Message
from paceline.messages.trainer import HandBack, Leave, Save
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA, quick_session, run_loop, share_line, stepper


def leave_after(session: Session, batches: int, step: object) -> None:
    """Loop; after so many batches, somebody tells the trainer to leave."""
    seen: list[object] = []

    def step_and_leave(batch: torch.Tensor) -> None:
        seen.append(batch)
        if len(seen) == batches:
            session.membership.leave_soon("SIGTERM")
        step(batch)  # type: ignore[operator]  # a function of a batch

    run_loop(session, step_and_leave)


def test_the_loop_ends_at_its_next_batch_through_every_except_exception(
    session: Session,
) -> None:
    model, optimizer = share_line(session)
    with pytest.raises(SystemExit) as left:
        leave_after(session, 2, stepper(model, optimizer))
    assert left.value.code == 75
    assert isinstance(left.value, Preempted)
    assert str(left.value) == "SIGTERM"
    assert model.weight.item() == 0 + 1 + 2 + 3


def test_the_rest_of_its_data_is_handed_back_behind_the_last_step(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    with pytest.raises(Preempted):
        leave_after(session, 2, stepper(model, optimizer))
    (handed_back,) = job.of(HandBack)
    assert handed_back.acked == (1,)  # type: ignore[attr-defined]  # a HandBack


def test_what_the_pace_has_kept_back_is_pushed_before_it_goes(job: FakeJob) -> None:
    job.pace = Async(push_every=4, pull_every=4)
    with quick_session(job) as session:
        model, optimizer = share_line(session)
        with pytest.raises(Preempted):
            leave_after(session, 2, stepper(model, optimizer))
    assert len(job.of(Push)) == len(job.servers)
    assert not job.held


def test_a_trainer_that_was_told_to_leave_says_that_it_is_not_done(
    job: FakeJob,
) -> None:
    with quick_session(job) as session:
        share_line(session)
        session.membership.leave_soon("SIGTERM")
    with quick_session(job) as session:
        share_line(session)
    assert [leave.is_done for leave in job.of(Leave)] == [False, True]  # type: ignore[attr-defined]  # a Leave


def test_a_session_is_idle_before_and_behind_its_loop_only(session: Session) -> None:
    model, optimizer = share_line(session)
    assert session.membership.is_idle()
    idle_inside: list[bool] = []
    step = stepper(model, optimizer)

    def note(batch: torch.Tensor) -> None:
        idle_inside.append(session.membership.is_idle())
        step(batch)

    run_loop(session, note)
    assert set(idle_inside) == {False}
    assert session.membership.is_idle()


def test_what_it_holds_can_be_given_up_in_the_middle_of_a_step(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    step = stepper(model, optimizer)

    def abandon(batch: torch.Tensor) -> None:
        session.membership.abandon()
        session.membership.leave_soon("SIGTERM")
        step(batch)

    with pytest.raises(Preempted):
        run_loop(session, abandon)
    assert [leave.is_done for leave in job.of(Leave)] == [False]  # type: ignore[attr-defined]  # a Leave


def test_a_break_waits_for_a_cut_that_says_which_loop_was_left(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
        stepper(model, optimizer)(batch)
        break
    assert not job.of(Save)
    assert session.records >= 0
    (save,) = job.of(Save)
    assert save.left == 0  # type: ignore[attr-defined]  # a Save
    assert session.membership.must_begin_again is None


def test_a_loop_is_left_by_break_though_the_script_keeps_what_it_went_over(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    batches = session.batches(DATA, 2, shuffle=False, task_size=6)
    for batch in batches:
        stepper(model, optimizer)(batch)
        break
    assert session.records >= 0
    (save,) = job.of(Save)
    assert save.left == 0  # type: ignore[attr-defined]  # a Save
    assert next(batches, None) is None
    with pytest.raises(UsageError, match="is iterated once, and this one has been"):
        iter(batches)


def test_a_script_whose_break_was_undone_begins_again(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
        stepper(model, optimizer)(batch)
        job.leave_timeline()
        break
    with pytest.raises(Preempted, match="steps before a break are lost"):
        session.batches(DATA, 2)
    assert session.membership.must_begin_again is not None


def test_a_break_that_waits_for_its_cut_is_not_undone_by_a_change_of_pace(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)

    def change_pace(_: str, message: Message) -> bool:
        job.timeline += isinstance(message, Save) and len(job.of(Save)) == 1
        return False

    job.lose = change_pace
    for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
        stepper(model, optimizer)(batch)
        break
    assert session.records >= 0
    assert [(s.timeline, s.left) for s in job.of(Save)] == [(0, 0), (1, 0)]  # type: ignore[attr-defined]
    assert session.membership.must_begin_again is None


def test_a_break_that_waits_for_its_cut_while_all_return_begins_again(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)

    def lose_server(_: str, message: Message) -> bool:
        if isinstance(message, Save) and len(job.of(Save)) == 1:
            job.leave_timeline()
        return False

    job.lose = lose_server
    for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
        stepper(model, optimizer)(batch)
        break
    with pytest.raises(Preempted, match="all have returned to a cut"):
        session.save()
    assert session.membership.must_begin_again is not None
    assert "all have returned to a cut" in session.membership.must_begin_again
    assert len(job.of(Save)) == 1, "on the new timeline the loop is not over"


def test_a_script_that_fails_has_not_ended_its_loop(job: FakeJob, session: Session) -> None:
    model, optimizer = share_line(session)

    def fail() -> None:
        with session:
            for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
                stepper(model, optimizer)(batch)
                raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        fail()
    assert not job.of(Save)
    assert job.of(HandBack)
    assert [leave.is_done for leave in job.of(Leave)] == [False]  # type: ignore[attr-defined]  # a Leave


@pytest.mark.parametrize("call", ["log", "save", "records", "once", "close"])
def test_a_call_on_the_way_out_does_not_end_the_loop(
    call: str, job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)

    def fail() -> None:
        try:
            for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
                stepper(model, optimizer)(batch)
                raise ValueError("a bug")
        except ValueError:
            calls = {
                "log": lambda: session.log(failed=1.0),
                "save": session.save,
                "records": lambda: session.records,
                "once": lambda: session.once("crash"),
                "close": session.close,
            }
            calls[call]()
            raise

    with pytest.raises(ValueError, match="a bug"):
        fail()
    assert [save.left for save in job.of(Save)] == [None] * (call == "save")  # type: ignore[attr-defined]  # a Save
    dones = [leave.is_done for leave in job.of(Leave)]  # type: ignore[attr-defined]  # a Leave
    assert dones == [False] * (call == "close")


def test_a_call_behind_the_except_block_ends_the_loop(
    job: FakeJob, session: Session
) -> None:
    model, optimizer = share_line(session)
    try:
        for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
            stepper(model, optimizer)(batch)
            raise ValueError("enough")
    except ValueError:
        session.log(enough=1.0)
    assert not job.of(Save)
    assert session.records >= 0
    assert [save.left for save in job.of(Save)] == [0]  # type: ignore[attr-defined]  # a Save


def test_an_evaluation_while_a_loops_exception_is_handled_is_refused(
    session: Session,
) -> None:
    model, optimizer = share_line(session)
    try:
        for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
            stepper(model, optimizer)(batch)
            raise ValueError("enough")
    except ValueError:
        with pytest.raises(UsageError, match="predict behind the except block"):
            session.predict(lambda batch: batch, DATA, lambda _, __: None)


@pytest.mark.parametrize("way", ["break", "exit 0"])
def test_a_session_that_closes_behind_a_left_loop_keeps_it_in_a_cut_and_open(
    way: str, job: FakeJob
) -> None:
    def train() -> None:
        with quick_session(job) as session:
            model, optimizer = share_line(session)
            for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
                stepper(model, optimizer)(batch)
                if way == "exit 0":
                    sys.exit(0)
                break

    with pytest.raises(SystemExit) if way == "exit 0" else contextlib.nullcontext():
        train()
    assert [save.left for save in job.of(Save)] == [None]  # type: ignore[attr-defined]  # a Save
    assert [leave.is_done for leave in job.of(Leave)] == [True]  # type: ignore[attr-defined]  # a Leave


@pytest.mark.parametrize("code", [1, "the loss is not finite"])
def test_a_script_that_exits_with_a_code_has_failed(code: object, job: FakeJob) -> None:
    def train() -> None:
        with quick_session(job) as session:
            model, optimizer = share_line(session)
            for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
                stepper(model, optimizer)(batch)
                sys.exit(code)  # type: ignore[arg-type]  # a number, or text

    with pytest.raises(SystemExit):
        train()
    assert not job.of(Save)
    assert [leave.is_done for leave in job.of(Leave)] == [False]  # type: ignore[attr-defined]  # a Leave


def test_a_process_knows_its_batches_and_the_task_it_is_at(session: Session) -> None:
    model, optimizer = share_line(session)
    assert session.membership.had() == (0, None, False)
    told = []
    for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
        stepper(model, optimizer)(batch)
        told.append(session.membership.had())
    assert [batches for batches, _, _ in told] == list(range(1, len(told) + 1))
    assert [last for _, last, _ in told] == [
        (TaskKey(0, 0, task), batch) for task in (0, 1) for batch in (0, 1, 2)
    ]
    assert not any(has_ended for _, _, has_ended in told)
    assert session.membership.had() == (len(told), None, True)

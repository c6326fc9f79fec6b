"""`session.track`: when the state of the user's objects is kept, and when it is loaded."""

import pytest
import torch
from torch import nn

from paceline.errors import UsageError
from paceline.messages.data import KeepTracked
from paceline.messages.trainer import BeginStage, Save, Tick, TrackedKept
from paceline.trainer.encoding.state_codec import decode_state
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA, run_loop, share_line, stepper


class Steps:
    """Counts what the user's loop does, as a scheduler would."""

    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = state["count"]


def loop(session: Session, steps: Steps, at: dict[int, object] | None = None) -> None:
    """Train; ``at`` {number of a batch: what happens before its step}."""
    model, optimizer = share_line(session)
    step = stepper(model, optimizer)
    batches: list[object] = []

    def one(batch: torch.Tensor) -> None:
        happens = (at or {}).get(len(batches))
        batches.append(batch)
        if callable(happens):
            happens()
        step(batch)
        steps.count += 1

    run_loop(session, one)


def names(job: FakeJob) -> list[str]:
    kinds = (KeepTracked, TrackedKept, Tick)
    return [type(message).__name__ for _, message in job.sent if isinstance(message, kinds)]


def test_state_is_kept_behind_the_users_bookkeeping_and_before_the_next_step(
    job: FakeJob, session: Session
) -> None:
    steps = Steps()
    session.track(steps=steps)
    loop(session, steps, {1: lambda: setattr(job, "wants_track", True)})
    assert names(job)[:5] == ["Tick", "Tick", "KeepTracked", "TrackedKept", "Tick"]
    (kept,) = job.of(TrackedKept)
    assert kept.rounds == {0: 2}  # type: ignore[attr-defined]  # a TrackedKept
    assert decode_state(job.states[kept.number])["steps"] == {"count": 2}  # type: ignore[attr-defined]


def test_what_is_tracked_is_told_with_the_data(job: FakeJob, session: Session) -> None:
    session.track(b=Steps(), a=Steps())
    loop(session, Steps())
    (begun,) = job.of(BeginStage)
    assert begun.spec.tracked == ("a", "b", "settings of part 0")  # type: ignore[attr-defined]  # a BeginStage


def test_buffers_of_a_shared_model_are_tracked_without_being_named(
    job: FakeJob, session: Session
) -> None:
    model = nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2))
    session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
    next(iter(session.batches(DATA, 2)))
    (begun,) = job.of(BeginStage)
    assert begun.spec.tracked == ("buffers of part 0", "settings of part 0")  # type: ignore[attr-defined]


def test_a_lease_may_say_which_state_to_load_first(job: FakeJob, session: Session) -> None:
    steps = Steps()
    session.track(steps=steps)
    steps.count = 41
    job.wants_track = True
    model, optimizer = share_line(session)
    run_loop(session, stepper(model, optimizer))  # kept as 41
    (number,) = job.states
    steps.count = 7
    job.stage, job.tracked = None, number
    seen: list[int] = []

    def note(batch: torch.Tensor) -> None:
        seen.append(steps.count)
        stepper(model, optimizer)(batch)

    run_loop(session, note)
    assert seen[0] == 7, "it is the one that has kept it"
    job.states[99], job.stage, job.tracked = job.states[number], None, 99
    run_loop(session, note)
    assert seen[-1] == 41


def test_after_a_return_to_the_beginning_objects_are_as_when_they_were_tracked(
    job: FakeJob, session: Session
) -> None:
    steps = Steps()
    session.track(steps=steps)

    def leave() -> None:
        job.leave_timeline()
        job.tracked = 0

    with pytest.warns(StepWarning, match="step dropped"):
        loop(session, steps, {3: leave})
    assert steps.count == 6, "the six batches of the new timeline, and nothing else"


def test_a_save_keeps_the_state_first(job: FakeJob, session: Session) -> None:
    steps = Steps()
    session.track(steps=steps)
    loop(session, steps, {2: session.save})
    order = [type(m) for _, m in job.sent if isinstance(m, TrackedKept | Save)]
    assert order == [TrackedKept, Save]


def test_a_loop_that_is_left_early_keeps_the_state_before_it_hands_back(
    job: FakeJob, session: Session
) -> None:
    steps = Steps()
    session.track(steps=steps)
    model, optimizer = share_line(session)
    for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
        stepper(model, optimizer)(batch)
        steps.count += 1
        break
    (number,) = job.states
    assert decode_state(job.states[number])["steps"] == {"count": 1}


def test_nothing_is_kept_where_nothing_is_tracked(job: FakeJob, session: Session) -> None:
    loop(session, Steps(), {1: lambda: setattr(job, "wants_track", True), 2: session.save})
    assert job.of(KeepTracked) == []


def test_objects_are_tracked_before_the_loop(session: Session) -> None:
    share_line(session)
    for _ in session.batches(DATA, 2):
        with pytest.raises(UsageError, match="track objects before the loop"):
            session.track(steps=Steps())
        break

"""A step whose timeline is left while it is on its way."""

import pytest

from paceline.config import Async, Pace, Sync
from paceline.errors import UsageError
from paceline.messages.data import Pull, Push
from paceline.messages.shared import Message
from paceline.messages.trainer import Tick
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA, run_loop, share_line, stepper


@pytest.mark.parametrize("pace", [Sync(), Async()])
def test_a_step_that_was_counted_is_not_told_as_dropped(pace: Pace) -> None:
    """A change of pace comes between the coordinator's word and the values after it."""
    job = FakeJob(pace=pace)
    with job.session() as session:
        model, optimizer = share_line(session)
        batches = iter(session.batches(DATA, 2, shuffle=False, task_size=12))
        step = stepper(model, optimizer)
        first = next(batches)
        counted = len(job.of(Tick))

        def lose(_: str, message: Message) -> bool:
            if not isinstance(message, Pull):
                return False
            if len(job.of(Tick)) == counted:
                return True  # on its way while the coordinator counts
            if job.timeline == 0:
                job.leave_timeline()
            return False

        job.lose = lose
        step(first)  # warns of nothing: warnings are errors here
        assert len(job.of(Tick)) == counted + 1
        assert job.timeline == 1
        next(batches)
        assert job.of(Pull)[-1].timeline == 1  # type: ignore[attr-defined]


def test_a_lease_that_comes_with_a_tick_brings_no_values_anew() -> None:
    """Those behind the push that ended the task before are as new."""
    job = FakeJob(pace=Async())
    with job.session() as session:
        run_loop(session, stepper(*share_line(session)))
    kinds = [type(message) for message in job.of(Push | Pull)]  # type: ignore[arg-type]
    first = kinds.index(Push)
    last = len(kinds) - kinds[::-1].index(Push)
    assert kinds[first:last] == [Push, Pull] * 5 + [Push]


def test_what_is_pushed_is_made_ready_once_and_before_it_is_stepped_over() -> None:
    job = FakeJob(pace=Async(push_every=2))
    with job.session() as session:
        share_line(session)
        carrier = session.membership.carrier
        part = carrier.protocol.parts[0]
        seen: list[bool] = []

        def step(error: str = "") -> str:
            def load() -> None:
                seen.append(part.window.has_delivered())
                if error:
                    raise UsageError(error)

            return carrier.run(carrier.protocol.step(0, load=load)).verdict

        batches = iter(session.batches(DATA, 2, shuffle=False, task_size=12))
        next(batches)
        assert (step(), seen) == ("kept", [])
        next(batches)
        with pytest.raises(UsageError, match="not these"):
            step("not these")
        assert part.window.has_delivered()
        assert not job.of(Push)
        assert (step(), seen) == ("pushed", [True, True])
        next(batches)
        next(batches)
        carrier.protocol.must_join = True
        assert (step(), seen) == ("dropped", [True, True])

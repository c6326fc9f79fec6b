"""Tracked objects: a cut holds them as of its moment, who enters loads them."""

from typing import Any

import msgspec
import pytest

from paceline.config import Async, Sync
from paceline.coordinator.decisions import Stored
from paceline.coordinator.durable.outcomes import CutBegun, StateKept, TimelineLeft
from paceline.coordinator.state import RunOpened
from paceline.messages.shared import Done, Waiting
from paceline.messages.trainer import (
    AskLease,
    BeginStage,
    Granted,
    Leave,
    Save,
    Saved,
    StageOver,
    TrackedKept,
)
from paceline.messages.watching import Exited, LauncherReport
from tests.coordinator.conftest import STAGE
from tests.coordinator.decisions.test_runs import resume, stored

TRACKED = msgspec.structs.replace(STAGE, tracked=("scheduler",))


@pytest.fixture
def pair(make_job: Any) -> Any:
    """Two trainers in rounds, each with a lease, that track a scheduler."""
    job = make_job(trainers=2, pace=Sync())
    job.open("trainer-0", "trainer-1", stage=TRACKED)
    for trainer in ("trainer-0", "trainer-1"):
        job.ask(trainer, AskLease(**job.who(trainer), stage=0))
    job.serve()
    job.leases = {t: job.lease(t) for t in ("trainer-0", "trainer-1")}
    return job


def round_of(job: Any, number: int, *trainers: str) -> None:
    """Everybody ticks a round over the next batch of its lease."""
    for trainer in trainers:
        job.tick(trainer, job.leases[trainer], number - 1, number - 1, round=number)


def keep(job: Any, trainer: str, number: int, rounds: dict[int, int]) -> Any:
    message = TrackedKept(**job.who(trainer), number=number, rounds=rounds)
    return job.get(trainer, message)


def finish_all(job: Any, stage: int, number: int) -> None:
    """One trainer does all tasks of a stage, and keeps a state of this number."""
    for _ in range(8):
        job.finish("trainer-0", job.lease("trainer-0", stage=stage))
        keep(job, "trainer-0", number, {})


def cuts(job: Any) -> int:
    return sum(isinstance(outcome, CutBegun) for outcome in job.outcomes)


def test_a_cut_waits_until_one_trainer_has_kept_the_state_of_its_round(pair: Any) -> None:
    round_of(pair, 1, "trainer-0", "trainer-1")
    before = cuts(pair)
    pair.ask("trainer-1", Save(**pair.who("trainer-1"), number=1))
    pair.serve()
    assert cuts(pair) == before, "nobody has kept its state"
    assert keep(pair, "trainer-0", 77, {0: 1}) == Done()
    assert cuts(pair) == before + 1
    assert pair.state.durable.tracked == 77


def test_the_one_who_is_asked_learns_it_with_its_next_tick(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.config = msgspec.structs.replace(job.config, cut_every_s=2.0)
    job.restart()
    job.open("trainer-0", stage=TRACKED)
    lease = job.lease("trainer-0")
    assert not job.tick("trainer-0", lease, 0, 0).track
    job.wait(3.0)
    assert job.tick("trainer-0", lease, 1, 1).track


def test_one_who_waits_for_work_is_asked_at_once(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0", stage=TRACKED)
    for _ in range(8):
        last = job.finish("trainer-0", job.lease("trainer-0"))
    assert last is not None
    asked = job.lease("trainer-0")
    assert isinstance(asked, Waiting)
    assert asked.track
    keep(job, "trainer-0", 5, {})
    assert job.state.durable.queue.stage == 1


def test_state_of_another_round_does_not_count(pair: Any) -> None:
    round_of(pair, 1, "trainer-0", "trainer-1")
    keep(pair, "trainer-0", 77, {0: 0})
    assert not [o for o in pair.outcomes if isinstance(o, StateKept)]


def test_state_of_one_who_has_sat_out_does_not_count(pair: Any) -> None:
    round_of(pair, 1, "trainer-0", "trainer-1")
    pair.open("trainer-2", stage=TRACKED)
    keep(pair, "trainer-2", 99, {0: 1})
    assert pair.state.durable.tracked == 0


def test_who_enters_rounds_loads_the_state_of_the_last_one(pair: Any) -> None:
    round_of(pair, 1, "trainer-0", "trainer-1")
    pair.open("trainer-2", stage=TRACKED)
    ask = AskLease(**pair.who("trainer-2"), stage=0)
    assert pair.get("trainer-2", ask) is None, "it waits for the state"
    pair.wait(1.25)
    told = [m for m in pair.answers.values() if isinstance(m, Waiting)]
    assert told[-1].wait.reason == "trainer-0 keeps the state of its tracked objects"
    keep(pair, "trainer-0", 77, {0: 1})
    lease = pair.lease("trainer-2")
    assert lease.tracked == 77
    assert lease.rounds == {0: 2}


def test_a_newcomer_passes_an_ended_stage_with_the_buffers_of_now(make_job: Any) -> None:
    job = make_job(pace=Async())
    first = msgspec.structs.replace(TRACKED, averaged=TRACKED.tracked)
    job.open("trainer-0", stage=first)
    finish_all(job, 0, 77)
    second = msgspec.structs.replace(first, stage=1)
    job.get("trainer-0", BeginStage(**job.who("trainer-0"), spec=second))
    job.tick("trainer-0", job.lease("trainer-0", stage=1), 0, 0)
    keep(job, "trainer-0", 78, {})

    job.open("trainer-1", stage=first)
    over = job.lease("trainer-1", stage=0)
    assert isinstance(over, StageOver)
    assert (over.state, over.tracked) == (None, 78)
    assert job.lease("trainer-0", stage=0).tracked is None, "it was there"


def test_all_learn_what_a_stage_has_ended_with_and_who_lacks_it(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0", stage=TRACKED)
    finish_all(job, 0, 77)
    job.open("trainer-1", stage=TRACKED)
    ends = [job.lease(trainer) for trainer in ("trainer-0", "trainer-1")]
    assert [(end.state, end.has_state) for end in ends] == [(77, True), (77, False)]


def test_what_is_kept_behind_the_end_of_a_stage_does_not_take_its_place(
    make_job: Any,
) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0", stage=TRACKED)
    finish_all(job, 0, 77)
    assert job.state.durable.is_end_kept
    assert keep(job, "trainer-0", 78, {}) == Done()
    assert (job.state.durable.is_end_kept, job.state.durable.tracked) == (True, 77)


def test_who_resumes_passes_stages_that_nobody_has_told_of_yet(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.apply(RunOpened(Stored()))
    job.open("trainer-0", stage=TRACKED)
    for number in range(2):
        stage = msgspec.structs.replace(TRACKED, stage=number)
        job.get("trainer-0", BeginStage(**job.who("trainer-0"), spec=stage))
        finish_all(job, number, 77 + number)
    again = resume(job, stored(job))
    again.open("trainer-0", stage=TRACKED)
    over = again.lease("trainer-0", stage=0)
    assert isinstance(over, StageOver)
    assert over.state is None, "stage 1 may have trained"


def test_a_lease_behind_a_return_says_that_a_loop_has_ended_with_the_state(
    make_job: Any,
) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0", stage=TRACKED)
    finish_all(job, 0, 77)
    second = msgspec.structs.replace(TRACKED, stage=1)
    job.get("trainer-0", BeginStage(**job.who("trainer-0"), spec=second))
    job.tick("trainer-0", job.lease("trainer-0", stage=1), 0, 0)
    keep(job, "trainer-0", 78, {})
    job.open("trainer-1", stage=TRACKED)
    lease = job.lease("trainer-1", stage=1)
    assert (lease.tracked, lease.is_end) == (78, False), "kept in this loop"

    job.servers[0].incarnation = 0  # a new process: all return
    job.serve()
    job.open("trainer-0", stage=second)
    assert job.lease("trainer-0", stage=1).is_end


def test_a_round_counts_although_nobody_waits_for_its_answer_just_then(pair: Any) -> None:
    keep(pair, "trainer-0", 7, {0: 0})
    tick = pair.ask_tick("trainer-0", pair.leases["trainer-0"], 0, 0, round=1)
    pair.wait(1.25)
    assert isinstance(pair.answers[tick], Waiting), "it was told to ask again"
    pair.lose("trainer-1")
    assert pair.state.durable.parts[0].round == 1, "nobody else was awaited"
    pair.open("trainer-2", stage=TRACKED)
    ask = AskLease(**pair.who("trainer-2"), stage=0)
    assert pair.get("trainer-2", ask) is None, "state of round 0 is no longer the last"


def test_who_goes_on_keeps_its_own(pair: Any) -> None:
    assert pair.leases["trainer-0"].tracked == 0, "as at the beginning"
    for number in range(1, 5):
        round_of(pair, number, "trainer-0", "trainer-1")
    pair.tick("trainer-0", pair.leases["trainer-0"], 4, 4, round=5, next_lease=True)
    last = pair.leases["trainer-1"]
    reply = pair.tick("trainer-1", last, 4, 4, round=5, next_lease=True)
    assert reply.lease.tracked is None


def test_the_loss_of_the_last_who_knows_brings_all_back_to_the_cut(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0", stage=TRACKED)
    job.tick("trainer-0", job.lease("trainer-0"), 0, 0)
    job.get("launcher", LauncherReport(exits=(Exited("trainer-0", 1, -9),)))
    (left,) = [o for o in job.outcomes if isinstance(o, TimelineLeft)]
    assert left.timeline == job.state.durable.timeline == 1
    assert "tracked objects" in left.reason
    job.open("trainer-0", stage=TRACKED)
    lease = job.lease("trainer-0")
    assert (lease.key.task, lease.first, lease.tracked) == (0, 0, 0)


def test_the_last_who_knows_may_not_leave_without_having_kept_it(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0", stage=TRACKED)
    job.finish("trainer-0", job.lease("trainer-0"))
    job.get("trainer-0", Leave(**job.who("trainer-0"), is_done=False))
    assert job.state.durable.timeline == 1


def test_nobody_goes_back_while_somebody_knows(pair: Any) -> None:
    round_of(pair, 1, "trainer-0", "trainer-1")
    pair.lose("trainer-1")
    assert pair.state.durable.timeline == 0


def test_nobody_goes_back_when_the_state_was_kept_just_now(make_job: Any) -> None:
    job = make_job(pace=Sync())
    job.open("trainer-0", stage=TRACKED)
    job.leases = {"trainer-0": job.lease("trainer-0")}
    round_of(job, 1, "trainer-0")
    keep(job, "trainer-0", 77, {0: 1})
    job.lose("trainer-0")
    assert job.state.durable.timeline == 0
    job.open("trainer-0", stage=TRACKED)
    assert job.lease("trainer-0").tracked == 77


def test_without_tracked_objects_nothing_of_this_happens(make_job: Any) -> None:
    job = make_job(pace=Sync())
    job.open("trainer-0")
    job.leases = {"trainer-0": job.lease("trainer-0")}
    assert job.leases["trainer-0"].tracked is None
    round_of(job, 1, "trainer-0")
    assert isinstance(job.get("trainer-0", Save(**job.who("trainer-0"), number=1)), Saved)
    job.lose("trainer-0")
    assert job.state.durable.timeline == 0
    assert not [
        g for g in job.answers.values() if isinstance(g, Granted) and g.lease.tracked
    ]

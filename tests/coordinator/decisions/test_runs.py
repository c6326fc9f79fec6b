"""A job goes on in a new run: other numbers of roles, the same queue, no dead member."""

from typing import Any

import msgspec
import pytest

from paceline.config import Async
from paceline.coordinator.decisions.checkpoints import Stored
from paceline.coordinator.durable.outcomes import AnyOutcome, CutCommitted, RunBegun
from paceline.coordinator.ledgers.effects import Happened
from paceline.coordinator.state import CoordinatorState, RunOpened
from paceline.messages.shared import PartPlan
from paceline.messages.trainer import Leave, Save
from paceline.messages.values import ClaimOnce
from paceline.messages.watching import Resumed
from tests.coordinator.replaying import restored


@pytest.fixture
def job(make_job: Any) -> Any:
    """Two servers, one trainer; a task is done and lies in a committed cut."""
    job = make_job(pace=Async())
    job.apply(RunOpened(Stored()))
    job.open("trainer-0")
    job.finish("trainer-0", job.lease("trainer-0"))
    job.get("trainer-0", Save(**job.who("trainer-0"), number=1))
    return job


def stored(job: Any) -> Stored:
    """What storage holds of a job: its last cut."""
    cut = next(o for o in reversed(job.outcomes) if isinstance(o, CutCommitted))
    plans = tuple(record.plan for record in job.state.durable.parts.values())
    return Stored(cut, plans, cut.timeline)


def resume(job: Any, found: Stored, *, servers: int = 2) -> Any:
    """All processes of a job are gone; another launcher runs it."""
    config = msgspec.structs.replace(job.config, run="again", servers=servers)
    fresh = type(job)(servers=servers, pace=Async())
    fresh.config = config
    fresh.outcomes = list(job.outcomes)
    body = msgspec.msgpack.encode(fresh.outcomes)
    journalled = restored(msgspec.msgpack.decode(body, type=list[AnyOutcome]))
    fresh.state = CoordinatorState(config, journalled, 0.0)
    fresh.apply(RunOpened(found))
    return fresh


def test_the_first_run_begins_with_nothing(make_job: Any) -> None:
    job = make_job()
    outcomes = job.apply(RunOpened(Stored()))
    assert outcomes == [RunBegun(job.config.run, 0, None, ())]
    assert job.apply(RunOpened(Stored())) == [], "a restarted coordinator is in its run"


def test_what_is_passed_over_when_a_job_goes_on_is_told(job: Any) -> None:
    found = stored(job)._replace(skipped=("cut-9: damaged",), foreign=("cut-8: of job b",))
    again = resume(job, found)
    (resumed,) = [e for e in again.effects if isinstance(e, Happened)]
    assert resumed.event == "Resumed"
    assert resumed.fields["skipped"] == ("cut-9: damaged",)
    assert resumed.fields["foreign"] == ("cut-8: of job b",)


def test_a_resumed_job_goes_on_at_its_last_cut_with_new_members(job: Any) -> None:
    second = job.lease("trainer-0")
    job.finish("trainer-0", second)  # done, but in no cut
    again = resume(job, stored(job))
    durable = again.state.durable
    assert (durable.trainers, durable.servers) == ({}, {})
    assert durable.timeline == 1
    assert again.state.status().tasks_done == 1
    again.open("trainer-0")
    assert again.lease("trainer-0").key == second.key


def test_slots_are_placed_on_the_servers_of_the_new_run_and_never_cut_anew(
    job: Any,
) -> None:
    found = stored(job)
    [before] = found.plans
    far = dict.fromkeys(before.placement, "server-7")
    found = found._replace(plans=(msgspec.structs.replace(before, placement=far),))
    for servers in (1, 3):
        again = resume(job, found, servers=servers)
        plan: PartPlan = again.state.durable.parts[0].plan
        assert plan.blocks == before.blocks
        assert plan.placement.keys() == before.placement.keys()
        here = {f"server-{number}" for number in range(servers)}
        assert set(plan.placement.values()) <= here


def test_the_same_servers_find_their_own_slots_again(job: Any) -> None:
    [before] = stored(job).plans
    again = resume(job, stored(job))
    assert again.state.durable.parts[0].plan == before


def test_a_lost_journal_costs_nothing_that_lies_in_the_cut(job: Any) -> None:
    found = stored(job)
    job.outcomes = []
    again = resume(job, found)
    assert again.state.durable.timeline == found.timeline + 1
    assert again.state.status().tasks_done == 1
    again.open("trainer-0")
    assert again.lease("trainer-0").key.task == 1


def test_a_damaged_newest_cut_is_passed_over_for_an_older_one(job: Any) -> None:
    older = stored(job)
    job.finish("trainer-0", job.lease("trainer-0"))
    job.get("trainer-0", Save(**job.who("trainer-0"), number=2))
    newest = stored(job)
    assert newest.cut is not None
    assert older.cut is not None
    assert newest.cut.cut > older.cut.cut
    again = resume(job, older)
    assert again.state.status().tasks_done == 1
    assert again.state.durable.next_cut > newest.cut.cut, "its number is never used again"


def test_what_a_trainer_that_left_has_claimed_stays_claimed(job: Any) -> None:
    job.get("trainer-0", ClaimOnce(**job.who("trainer-0"), name="evaluate"))
    dead = resume(job, stored(job))
    assert dead.state.durable.once == {}, "the dead did not finish what they claimed"
    job.get("trainer-0", Leave(**job.who("trainer-0")))
    left = resume(job, stored(job))
    assert left.state.durable.once == {"evaluate": "trainer-0"}


def test_a_run_that_died_before_its_first_cut_begins_anew(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.apply(RunOpened(Stored()))
    job.serve()
    again = resume(job, Stored())
    assert again.state.durable.timeline == 1
    again.open("trainer-0")
    assert again.lease("trainer-0").key.task == 0


def test_a_run_says_where_it_goes_on(job: Any) -> None:
    found = stored(job)._replace(records=24, created=7.5, skipped=("cut-9: damaged",))
    told = resume(job, found).state.status().resumed
    assert found.cut is not None
    assert told == Resumed(found.cut.cut, 24, 7.5, ("cut-9: damaged",))
    assert job.state.status().resumed is None, "a first run goes on from nowhere"


def test_what_was_passed_over_is_told_up_to_a_bound(job: Any) -> None:
    found = stored(job)._replace(foreign=tuple(f"cut-{n}" for n in range(100)))
    told = resume(job, found).state.status().resumed
    assert told is not None
    assert told.passed_over == (*(f"cut-{n}" for n in range(8)), "92 more")


def test_cuts_that_the_journal_knows_are_asked_for(job: Any) -> None:
    lost = resume(job, Stored())
    assert "holds none of this job: bring them back" in lost.state.status().error
    config = msgspec.structs.replace(job.config, run="third", begins_anew=True)
    anew = CoordinatorState(config, restored(lost.outcomes), 0.0)
    anew.apply(RunOpened(Stored()), 0.0)
    assert anew.status().error is None
    assert anew.status().tasks_done == 0
    assert anew.status().resumed == Resumed(None, 0, 0.0, ())


def test_a_run_that_was_refused_goes_on_when_its_cuts_are_back(job: Any) -> None:
    found = stored(job)
    lost = resume(job, Stored())
    config = msgspec.structs.replace(job.config, run="third")
    back = CoordinatorState(config, restored([*job.outcomes, *lost.outcomes]), 0.0)
    back.apply(RunOpened(found), 0.0)
    assert back.status().error is None
    assert back.status().tasks_done == 1

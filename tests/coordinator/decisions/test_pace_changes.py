"""The pace changes between two leases, once, on a new timeline; or it is refused."""

from typing import Any

import msgspec
import pytest

from paceline.config import SSP, Async, Combine, LocalSGD, Pace, Sync, Zeros
from paceline.coordinator.decisions.checkpoints import Stored
from paceline.coordinator.durable.durable import Durable
from paceline.coordinator.durable.outcomes import CutCommitted, PaceChanged, TrainerLost
from paceline.coordinator.state import CoordinatorState, RunOpened
from paceline.messages.server import Restore, TakePaces
from paceline.messages.shared import Done, Lease, PartSpec, Refusal, TableSpec, Waiting
from paceline.messages.trainer import (
    AskLease,
    Beat,
    Granted,
    HandBack,
    Joined,
    JoinTrainer,
    PartUploaded,
    SharePart,
    Ticked,
)
from paceline.messages.watching import ChangePace
from tests.coordinator.conftest import copied
from tests.coordinator.replaying import restored

NAMES = ("trainer-0", "trainer-1")
SSP5 = SSP(staleness=5)


@pytest.fixture
def two(make_job: Any) -> Any:
    """Two trainers in `async`, each with a lease; servers do as they are told."""
    job = make_job(trainers=2, pace=Async())
    job.open(*NAMES)
    tickets = [job.ask(name, AskLease(**job.who(name), stage=0)) for name in NAMES]
    job.serve()
    job.held = {n: job.answers[t].lease for n, t in zip(NAMES, tickets, strict=True)}
    for server in job.servers:
        server.obey = obeying(server, server.obey)
    return job


def obeying(server: Any, obey: Any) -> Any:
    def obey_all(orders: Any) -> None:
        obey(orders)
        for order in orders.orders:
            if isinstance(order, TakePaces):
                server.timeline = order.timeline

    return obey_all


def change(job: Any, pace: Pace, part: str = "") -> int:
    ticket: int = job.ask("operator", ChangePace(pace=pace, part=part))
    return ticket


def hand_back(job: Any, name: str, acked: int = -1) -> None:
    token = job.held[name].token
    job.get(name, HandBack(**job.who(name), tokens=(token,), acked=(acked,)))


def changes(job: Any) -> list[PaceChanged]:
    return [o for o in job.outcomes if isinstance(o, PaceChanged)]


def pace_of(job: Any) -> Pace:
    pace: Pace = job.state.durable.parts[0].plan.spec.pace
    return pace


def test_holders_are_told_to_pause_and_the_last_one_lets_the_pace_change(two: Any) -> None:
    ticket = change(two, SSP5)
    ticked = two.tick("trainer-0", two.held["trainer-0"], 0, 0)
    assert ticked == Ticked(records=2, pauses=True)
    hand_back(two, "trainer-0", 0)
    assert not changes(two)
    assert two.state.status().changing is not None
    assert "waits for trainer-1" in two.state.status().changing
    hand_back(two, "trainer-1")
    [changed] = changes(two)
    assert (changed.before, changed.paces) == ({0: "async"}, {0: "ssp:5"})
    assert (changed.timeline, changed.records, pace_of(two)) == (1, 2, SSP5)
    assert two.answers[ticket] == Done()
    assert two.state.status().pace == "ssp:5"
    assert all(server.timeline == 1 for server in two.servers)
    assert not any(isinstance(order, Restore) for s in two.servers for order in s.seen[-3:])


def test_who_computes_hears_of_a_pause_with_its_beat(two: Any) -> None:
    beat = Beat(**two.who("trainer-1"), clock=0, state="training")
    assert not two.get("trainer-1", beat).pauses
    change(two, SSP5)
    assert two.get("trainer-1", beat).pauses


def test_nothing_is_leased_meanwhile_and_those_who_wait_are_told_why(two: Any) -> None:
    change(two, SSP5)
    hand_back(two, "trainer-0")
    ticket = two.ask("trainer-0", AskLease(**two.who("trainer-0"), stage=0))
    two.wait(1.25)
    waiting = two.answers[ticket]
    assert isinstance(waiting, Waiting)
    assert "the pace changes to ssp:5; it waits for trainer-1" in waiting.wait.reason


def test_work_goes_on_where_it_was_when_all_servers_have_taken_over(two: Any) -> None:
    change(two, SSP5)
    two.tick("trainer-0", two.held["trainer-0"], 0, 1)
    hand_back(two, "trainer-0", 1)
    two.servers[1].is_deaf = True
    hand_back(two, "trainer-1")
    [changed] = changes(two)
    assert changed.timeline == 1
    joined = two.get(
        "trainer-0",
        JoinTrainer(
            trainer="trainer-0", pid=1, host="here", previous=two.trainers["trainer-0"]
        ),
    )
    assert isinstance(joined, Joined)
    assert (joined.timeline, joined.returned, joined.servers) == (1, 0, {})
    two.servers[1].is_deaf = False
    assert two.join("trainer-0", two.trainers["trainer-0"])
    records = two.state.status().records
    lease = two.lease("trainer-0")
    assert (lease.key.task, lease.first) == (0, 2)
    assert two.state.status().records == records == 4


def test_a_part_of_the_old_pace_is_answered_with_the_plan_of_the_new_one(two: Any) -> None:
    first = two.state.durable.parts[0].plan.spec
    change(two, SSP5)
    for name in NAMES:
        hand_back(two, name)
    answer = two.get("trainer-0", SharePart(**two.who("trainer-0"), spec=first))
    assert answer.plan.spec.pace == SSP5
    again = two.get("trainer-0", SharePart(**two.who("trainer-0"), spec=answer.plan.spec))
    assert again == answer


def test_what_belongs_to_the_time_before_is_refused(two: Any) -> None:
    old = two.who("trainer-0")
    change(two, SSP5)
    for name in NAMES:
        hand_back(two, name)
    reply = two.get("trainer-0", AskLease(**old, stage=0))
    assert isinstance(reply, Refusal)
    assert reply.kind == "timeline"


def test_a_restart_before_the_journal_knows_the_change_has_changed_nothing(
    two: Any,
) -> None:
    change(two, SSP5)
    hand_back(two, "trainer-0")
    two.restart()
    two.serve()
    assert pace_of(two) == Async()
    assert isinstance(two.lease("trainer-0"), Lease)
    ticket = change(two, SSP5)
    assert ticket not in two.answers
    assert not changes(two)


def test_a_restart_behind_the_journal_goes_on_under_the_new_pace(two: Any) -> None:
    change(two, SSP5)
    for server in two.servers:
        server.is_deaf = True
    for name in NAMES:
        hand_back(two, name)
    assert len(changes(two)) == 1
    two.restart()
    for server in two.servers:
        server.is_deaf = False
    two.serve()
    assert pace_of(two) == SSP5
    assert all(server.timeline == 1 for server in two.servers)
    assert two.get("operator", ChangePace(pace=SSP5)) == Done()
    assert len(changes(two)) == 1


def test_a_lost_holder_is_waited_for_until_it_is_fenced(two: Any) -> None:
    change(two, SSP5)
    hand_back(two, "trainer-0")
    two.lose("trainer-1")
    two.serve()
    names = two.names()
    assert names.index(TrainerLost.__name__) < names.index("MarksSettled")
    assert names.index("MarksSettled") < names.index(PaceChanged.__name__)


def test_a_return_to_a_cut_of_before_goes_on_under_the_new_pace(two: Any) -> None:
    change(two, SSP5)
    for name in NAMES:
        hand_back(two, name)
    two.servers[1].incarnation = 0  # a new process
    two.serve()
    assert two.state.durable.timeline == 2
    restored = next(o for o in two.servers[0].seen[::-1] if isinstance(o, Restore))
    assert restored.plans[0].spec.pace == SSP5
    cut = next(o for o in two.outcomes[::-1] if isinstance(o, CutCommitted))
    assert cut.timeline == 0
    joined = two.get(
        "trainer-0",
        JoinTrainer(
            trainer="trainer-0", pid=1, host="here", previous=two.trainers["trainer-0"]
        ),
    )
    assert joined.returned == 2


def test_a_pace_that_holds_already_is_said_to_be_so_at_once(two: Any) -> None:
    assert two.get("operator", ChangePace(pace=Async())) == Done()
    assert two.state.status().changing is None


def test_another_change_is_refused_while_one_is_on_its_way(two: Any) -> None:
    first, again = change(two, SSP5), change(two, SSP5)
    refused = two.get("operator", ChangePace(pace=Sync()))
    assert "a change to ssp:5 is on its way" in refused.text
    for name in NAMES:
        hand_back(two, name)
    assert two.answers[first] == two.answers[again] == Done()


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (ChangePace(pace=Sync(), part="7"), "there is no part '7'; the job has 0 (w)"),
        (
            ChangePace(pace=Async(isolation="hogwild"), part="v"),
            "there is no part 'v'",
        ),
    ],
)
def test_wrong_usage_is_refused_and_work_goes_on(
    two: Any, message: ChangePace, text: str
) -> None:
    refused = two.get("operator", message)
    assert isinstance(refused, Refusal)
    assert text in refused.text
    assert two.tick("trainer-0", two.held["trainer-0"], 0, 0) == Ticked(records=2)


def test_a_part_is_found_by_a_name_in_it(two: Any) -> None:
    ticket = change(two, SSP5, "w")
    for name in NAMES:
        hand_back(two, name)
    assert two.answers[ticket] == Done()


def test_before_work_has_begun_a_change_waits_and_holds_nobody_up(make_job: Any) -> None:
    job = make_job(trainers=1, pace=Async())
    ticket = job.ask("operator", ChangePace(pace=SSP5))
    job.open("trainer-0")
    job.wait(1.25)
    answer = job.answers[ticket]
    assert isinstance(answer, Waiting)
    assert answer.wait.reason == "no loop over batches is running yet"
    assert answer.wait.since_s == pytest.approx(1.25, abs=0.3)
    ticket = job.ask("trainer-0", AskLease(**job.who("trainer-0"), stage=0))
    job.serve()
    assert isinstance(job.answers[ticket], Granted)


def test_a_resumed_job_goes_on_at_the_newest_pace_though_its_cut_is_older(two: Any) -> None:
    [old] = [record.plan for record in two.state.durable.parts.values()]
    change(two, SSP5)
    for name in NAMES:
        hand_back(two, name)
    cut = next(o for o in two.outcomes[::-1] if isinstance(o, CutCommitted))
    config = msgspec.structs.replace(two.config, run="again")
    two.state = CoordinatorState(config, restored(copied(two.outcomes)), two.now)
    two.apply(RunOpened(Stored(cut, (old,), cut.timeline)))
    assert pace_of(two) == SSP5


def test_without_its_journal_a_job_goes_on_at_the_pace_of_its_cut(two: Any) -> None:
    [old] = [record.plan for record in two.state.durable.parts.values()]
    cut = next(o for o in two.outcomes[::-1] if isinstance(o, CutCommitted))
    two.state = CoordinatorState(two.config, Durable(), two.now)
    two.outcomes.clear()
    two.apply(RunOpened(Stored(cut, (old,), cut.timeline)))
    assert pace_of(two) == Async()


def test_state_of_optimizers_stays_behind_where_local_steps_begin(two: Any) -> None:
    change(two, LocalSGD(every=4))
    for name in NAMES:
        hand_back(two, name)
    [changed] = changes(two)
    assert (changed.without_state, changed.inner_dropped) == ((0,), ())
    taken = next(o for o in two.servers[0].seen[::-1] if isinstance(o, TakePaces))
    assert taken.without_state == (0,)
    two.servers[1].incarnation = 0  # a new process: all return to a cut of before
    two.serve()
    back = next(o for o in two.servers[0].seen[::-1] if isinstance(o, Restore))
    assert back.without_state == (0,)


def test_a_part_that_turns_out_not_to_be_there_is_refused(make_job: Any) -> None:
    job = make_job(trainers=1, pace=Async())
    ticket = job.ask("operator", ChangePace(pace=SSP5, part="9"))
    job.open("trainer-0")
    job.wait(1.25)
    assert isinstance(job.answers[ticket], Waiting)
    refused = job.get("operator", ChangePace(pace=SSP5, part="9"))
    assert "there is no part '9'" in refused.text


def test_a_part_that_came_meanwhile_is_not_changed_unasked(two: Any) -> None:
    ticket = change(two, SSP(staleness=0))
    first = two.state.durable.parts[0].plan.spec
    new = msgspec.structs.replace(first, part=1, pace=Sync(), first_pace=None)
    two.ask("trainer-0", SharePart(**two.who("trainer-0"), spec=new))
    two.serve()
    two.get("trainer-0", PartUploaded(**two.who("trainer-0"), part=1))
    for name in NAMES:
        hand_back(two, name)
        two.ask(name, AskLease(**two.who(name), stage=0))  # the cut waits for that
    two.wait(2.0)
    assert not changes(two), "ssp:0 does not go beside sync"
    assert two.state.status().changing is None
    assert isinstance(two.answers[ticket], Waiting)
    refused = two.get("operator", ChangePace(pace=SSP(staleness=0), part="0"))
    assert "which ssp:0 forbids" in refused.text


def test_a_table_that_is_not_named_keeps_the_pace_of_its_algorithm(two: Any) -> None:
    rows = (TableSpec("seen", 1, Combine(), Zeros()),)
    own = PartSpec(1, (), None, rows, Async(push_every=2))
    two.ask("trainer-0", SharePart(**two.who("trainer-0"), spec=own))
    two.serve()
    two.get("trainer-0", PartUploaded(**two.who("trainer-0"), part=1))
    change(two, Sync())
    for name in NAMES:
        hand_back(two, name)
        two.ask(name, AskLease(**two.who(name), stage=0))  # the cut waits for that
    two.wait(2.0)
    [changed] = changes(two)
    assert changed.paces == {0: "sync"}
    refused = two.get("operator", ChangePace(pace=Sync(), part="seen"))
    assert "use sync:reduce=sum" in refused.text

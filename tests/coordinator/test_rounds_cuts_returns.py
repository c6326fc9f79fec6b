"""Rounds, cuts, returns to a cut, and restarts of the coordinator."""

from typing import Any

import pytest

from paceline.config import Async, Sync
from paceline.coordinator.durable.outcomes import (
    JobBroken,
    MarksRestored,
    Resume,
    RoundCommitted,
)
from paceline.coordinator.durable.queue import decode_queue
from paceline.coordinator.state import ManifestWritten, TimePassed
from paceline.ids import Span, Window, cut_folder
from paceline.messages.server import (
    CommitRound,
    Forget,
    Restore,
    SendMarks,
    ShutDown,
    Snapshot,
)
from paceline.messages.shared import Refusal
from paceline.messages.trainer import AskLease, HandBack, Save, Saved, Tick, Ticked


@pytest.fixture
def pair(make_job: Any) -> Any:
    job = make_job(trainers=2)
    job.open("trainer-0", "trainer-1")
    return job


def start(job: Any) -> tuple[Any, Any]:
    ticket = job.ask("trainer-0", _ask(job, "trainer-0"))
    second = job.lease("trainer-1")
    return job.answers[ticket].lease, second


def _ask(job: Any, trainer: str) -> Any:
    return AskLease(**job.who(trainer), stage=0)


def tick_nowait(job: Any, trainer: str, lease: Any, batch: int, number: int) -> int:
    window = Window(0, lease.key.epoch, (Span(lease.key.task, batch, batch),))
    return job.ask(
        trainer,
        Tick(
            **job.who(trainer),
            part=0,
            number=batch + 1,
            window=window,
            records=2,
            acked=(batch,),
            round=number,
            is_prepared=True,
        ),
    )


def test_the_first_leases_go_to_trainers_in_their_order(pair: Any) -> None:
    first, second = start(pair)
    assert (first.key.task, second.key.task) == (0, 1)
    assert first.rounds == {0: 1}


def test_a_round_closes_when_every_lease_holder_has_ticked(pair: Any) -> None:
    first, second = start(pair)
    ticket = tick_nowait(pair, "trainer-0", first, 0, 1)
    pair.serve()
    assert ticket not in pair.answers
    other = tick_nowait(pair, "trainer-1", second, 0, 1)
    assert isinstance(pair.answers[ticket], Ticked)
    assert isinstance(pair.answers[other], Ticked)
    pair.serve()
    for server in pair.servers:
        commits = [o for o in server.seen if isinstance(o, CommitRound)]
        assert [c.weight for c in commits[0].contributions] == [0.5, 0.5]


@pytest.mark.parametrize(("reduce", "weight"), [("mean", 1.0), ("sum", 1.0)])
def test_a_round_of_one_weighs_one(make_job: Any, reduce: Any, weight: float) -> None:
    job = make_job(pace=Sync(reduce=reduce))
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    assert isinstance(job.tick("trainer-0", lease, 0, 0, round=1), Ticked)
    committed = [o for o in job.servers[0].seen if isinstance(o, CommitRound)]
    assert committed[0].contributions[0].weight == weight


def test_a_round_goes_on_without_a_trainer_that_died_in_it(pair: Any) -> None:
    first, _ = start(pair)
    ticket = tick_nowait(pair, "trainer-0", first, 0, 1)
    pair.lose("trainer-1")
    assert isinstance(pair.answers[ticket], Ticked)


def test_a_tick_repeated_after_its_round_is_answered_again(make_job: Any) -> None:
    job = make_job()
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    assert isinstance(job.tick("trainer-0", lease, 0, 0, round=1), Ticked)
    job.restart()
    job.serve()
    assert isinstance(job.tick("trainer-0", lease, 0, 0, round=1), Ticked)
    assert job.names().count("RoundCommitted") == 1


def test_a_trainer_that_finishes_its_task_gets_the_next_one_with_the_round(
    make_job: Any,
) -> None:
    job = make_job()
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    for batch in range(5):
        reply = job.tick(
            "trainer-0", lease, batch, batch, round=batch + 1, next_lease=batch == 4
        )
    assert reply.lease.key.task == 1
    assert reply.lease.rounds == {0: 6}


def test_committed_rounds_are_sent_again_to_a_server_that_missed_them(
    make_job: Any,
) -> None:
    job = make_job()
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    job.servers[1].is_deaf = True
    job.tick("trainer-0", lease, 0, 0, round=1)
    job.restart()
    job.servers[1].is_deaf = False
    job.serve()
    assert job.servers[1].parts[0].applied_round == 1


def test_a_cut_copies_the_queue_before_any_server_is_asked(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    for server in job.servers:
        server.is_deaf = True
    ticket = job.ask("trainer-0", Save(**job.who("trainer-0"), number=1))
    job.finish("trainer-0", lease)
    for server in job.servers:
        server.is_deaf = False
    job.serve()
    assert isinstance(job.answers[ticket], Saved)
    queue = job.state.durable.cut.queue
    assert list(decode_queue(queue).pending) == [0]


def test_no_round_closes_while_a_cut_is_taken(make_job: Any) -> None:
    job = make_job()
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    for server in job.servers:
        server.is_deaf = True
    job.ask("trainer-0", Save(**job.who("trainer-0"), number=1))
    ticket = tick_nowait(job, "trainer-0", lease, 0, 1)
    assert ticket not in job.answers
    for server in job.servers:
        server.is_deaf = False
    job.serve()
    assert isinstance(job.answers[ticket], Ticked)
    orders = [type(o) for o in job.servers[0].seen]
    assert orders.index(CommitRound) > len(orders) - 1 - orders[::-1].index(Snapshot)


def test_a_lost_server_brings_all_back_to_the_cut_on_a_new_timeline(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    first = job.lease("trainer-0")
    job.finish("trainer-0", first)
    second = job.lease("trainer-0")
    lost, kept = job.servers[1], job.servers[0]
    lost.is_deaf = True
    job.wait(10.5)
    assert job.state.durable.timeline == 1
    job.serve()
    assert isinstance(next(o for o in kept.seen if isinstance(o, Restore)), Restore)
    lost.is_deaf = False
    job.serve()
    assert any(isinstance(order, ShutDown) for order in lost.seen)
    fresh = type(lost)("server-1")
    job.servers[1] = fresh
    job.serve()
    assert not job.state.durable.is_returning
    assert job.state.status().tasks_done == 0
    job.join("trainer-0")
    assert job.lease("trainer-0").key == first.key
    assert second.key != first.key


def test_who_waits_while_the_job_returns_is_told_so_and_joins_the_new_timeline(
    make_job: Any,
) -> None:
    job = make_job(pace=Async(), trainers=2)
    job.open("trainer-0", "trainer-1")
    who = job.who("trainer-0")
    asked = job.ask("trainer-0", AskLease(**who, stage=0, held=()))
    save = job.ask("trainer-0", Save(**who, number=1))
    job.servers[1] = type(job.servers[1])("server-1")
    job.serve()
    for ticket in (asked, save):
        refusal = job.answers[ticket]
        assert isinstance(refusal, Refusal)
        assert (refusal.kind, refusal.timeline) == ("timeline", 1)
    # A lease of the new timeline for whoever asked on the old one would come on top of
    # those that it holds.
    assert "LeaseGranted" not in job.names()


def test_a_return_honours_the_marks_that_lie_in_the_cut(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    for server in job.servers:
        server.marks[lease.key] = (4,)
    lost = job.servers[1]
    job.servers[1] = type(lost)("server-1")
    job.servers[1].marks = dict(lost.marks)
    job.serve()
    job.join("trainer-0", previous=job.trainers["trainer-0"])
    assert job.lease("trainer-0").key.task == 1
    assert job.state.status().tasks_done == 1


def test_a_return_journals_where_open_tasks_go_on_and_no_task_that_is_over(
    make_job: Any,
) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    done = job.lease("trainer-0")
    job.finish("trainer-0", done)
    half_done = job.lease("trainer-0")
    job.tick("trainer-0", half_done, 0, 1)
    save = job.ask("trainer-0", Save(**job.who("trainer-0"), number=1))
    job.serve()
    assert isinstance(job.answers[save], Saved)
    for server in job.servers:
        server.marks = {done.key: (4,), half_done.key: (1,)}
    lost = job.servers[1]
    job.servers[1] = type(lost)("server-1")
    job.servers[1].marks = dict(lost.marks)
    job.serve()
    (restored,) = [o for o in job.outcomes if isinstance(o, MarksRestored)]
    assert restored.resumes == (Resume(half_done.key, 2, ()),)
    forget = Forget(cut=1, stage=0, epoch=0, below=2, kept=(1,))
    assert job.servers[1].seen.index(forget) < job.servers[1].seen.index(SendMarks())


def test_a_restarted_coordinator_is_the_same_coordinator(pair: Any) -> None:
    first, second = start(pair)
    before = pair.state.durable
    pair.restart()
    assert pair.state.durable == before
    pair.serve()
    assert pair.lease("trainer-0") == first
    assert pair.lease("trainer-1") == second


def test_a_server_joining_twice_is_one_server(make_job: Any) -> None:
    job = make_job()
    job.serve()
    assert len(job.state.durable.servers) == 2
    assert job.state.durable.timeline == 0


def test_a_tick_does_not_outlive_the_lease_that_it_was_for(make_job: Any) -> None:
    job = make_job(trainers=3)
    job.open("trainer-0", "trainer-1", "trainer-2")
    ask = [job.ask(f"trainer-{i}", _ask(job, f"trainer-{i}")) for i in range(2)]
    third = job.lease("trainer-2")
    first, second = (job.answers[ticket].lease for ticket in ask)
    tick_nowait(job, "trainer-0", first, 0, 1)
    back = HandBack(**job.who("trainer-0"), tokens=(first.token,), acked=(-1,))
    job.get("trainer-0", back)
    again = job.lease("trainer-1", (second.token, -1))
    assert again.key == first.key
    tick_nowait(job, "trainer-1", again, 0, 1)
    tick_nowait(job, "trainer-2", third, 0, 1)
    job.serve()
    (committed,) = [o for o in job.outcomes if isinstance(o, RoundCommitted)]
    assert {c.trainer for c in committed.contributions} == {"trainer-1", "trainer-2"}


def test_a_tick_for_a_task_that_is_not_the_askers_is_refused(pair: Any) -> None:
    first, _ = start(pair)
    refused = pair.tick("trainer-1", first, 0, 0, round=1)
    assert isinstance(refused, Refusal)
    assert refused.kind == "stale"


def test_who_repeats_an_applied_batch_keeps_the_others_company(pair: Any) -> None:
    first, second = start(pair)
    ticket = tick_nowait(pair, "trainer-0", first, 0, 1)
    reply = pair.tick("trainer-1", second, 0, 0, round=1, is_prepared=False)
    assert isinstance(reply, Ticked)
    assert isinstance(pair.answers[ticket], Ticked)
    (committed,) = [o for o in pair.outcomes if isinstance(o, RoundCommitted)]
    assert [(c.trainer, c.weight) for c in committed.contributions] == [("trainer-0", 1.0)]
    again = pair.tick("trainer-1", second, 0, 0, round=1, is_prepared=False)
    assert isinstance(again, Ticked)


def test_nobody_enters_between_two_parts_of_a_step(make_job: Any) -> None:
    job = make_job(parts=2)
    job.open("trainer-0", "trainer-1")
    lease = job.lease("trainer-0")
    job.tick("trainer-0", lease, 0, 0, round=1, acked=(-1,), ends_step=False)
    waiting = job.ask("trainer-1", _ask(job, "trainer-1"))
    job.restart()  # which forgets who is parked, not who is in the middle
    waiting = job.ask("trainer-1", _ask(job, "trainer-1"))
    job.serve()
    assert waiting not in job.answers
    job.tick("trainer-0", lease, 0, 0, part=1, round=1)
    assert job.answers[waiting].lease.rounds == {0: 2, 1: 2}


def test_a_save_before_the_first_loop_is_a_cut(make_job: Any) -> None:
    job = make_job()
    job.open("trainer-0")
    assert isinstance(job.get("trainer-0", Save(**job.who("trainer-0"), number=1)), Saved)


def test_a_save_whose_cut_failed_gets_another(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    first = Save(**job.who("trainer-0"), number=1)
    assert isinstance(job.get("trainer-0", first), Saved)  # without it the job would end
    for server in job.servers:
        server.is_deaf = True
    save = Save(**job.who("trainer-0"), number=2)
    job.ask("trainer-0", save)
    failed = job.state.durable.next_cut - 1
    job.apply(ManifestWritten(cut_folder(failed, 0), "disk full"))
    for server in job.servers:
        server.is_deaf = False
    job.wait(5.5)
    assert isinstance(job.get("trainer-0", save), Saved)
    assert job.state.durable.cut.cut == failed + 1


def test_a_run_whose_checkpoints_another_one_took_over_fails_and_says_who(
    make_job: Any,
) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    for server in job.servers:
        server.is_deaf = True
    job.ask("trainer-0", Save(**job.who("trainer-0"), number=1))
    cut = job.state.durable.next_cut - 1
    why = "cuts belongs to run 3 since"
    job.apply(ManifestWritten(cut_folder(cut, 0), why, is_taken_over=True))
    assert job.outcomes[-1] == JobBroken(why)
    assert job.state.status().error == why


def test_no_lease_is_granted_that_the_end_of_a_stage_would_lose(make_job: Any) -> None:
    job = make_job(trainers=2, pace=Async())
    job.open("trainer-0", "trainer-1")
    ticket = job.ask("trainer-0", _ask(job, "trainer-0"))
    second = job.lease("trainer-1")
    first = job.answers[ticket].lease
    for trainer, lease in (("trainer-0", first), ("trainer-1", second)):
        back = HandBack(**job.who(trainer), tokens=(lease.token,), acked=(-1,))
        job.get(trainer, back)
    for server in job.servers:
        server.is_deaf = True
    job.lose("trainer-1")
    job.ask("trainer-0", AskLease(**job.who("trainer-0"), stage=1))
    assert job.state.durable.next_cut > 1  # the one that ends the stage is being taken
    job.join("trainer-1")
    job.ask("trainer-1", _ask(job, "trainer-1"))
    assert not job.state.durable.queue.pending


def test_what_the_coordinator_could_not_hear_is_nobodys_silence(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    job.lease("trainer-0")
    job.now += 3600
    job.apply(TimePassed())
    assert set(job.state.durable.servers) == {"server-0", "server-1"}
    assert set(job.state.durable.trainers) == {"trainer-0"}

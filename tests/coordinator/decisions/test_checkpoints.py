"""Cuts are due when they should be, hold rounds no longer than needed, and never end."""

from typing import Any

import pytest

from paceline.config import Async
from paceline.coordinator.ledgers.cuts import LIMIT_S, pause_after
from paceline.coordinator.ledgers.effects import DropCut, Happened
from paceline.messages.shared import Waiting
from paceline.messages.trainer import AskLease, Beat, Save, Saved, Ticked
from tests.coordinator.test_rounds_cuts_returns import tick_nowait


def happened(job: Any, event: str) -> list[dict[str, object]]:
    return [e.fields for e in job.effects if isinstance(e, Happened) and e.event == event]


def wait(job: Any, seconds: float) -> None:
    """Let time pass while the trainer gives signs of life too."""
    for _ in range(int(seconds)):
        job.ask("trainer-0", Beat(**job.who("trainer-0"), clock=0, state="working"))
        job.wait(1.0)


def save(job: Any, number: int = 1) -> Save:
    return Save(**job.who("trainer-0"), number=number)


def test_rounds_close_as_soon_as_all_servers_hold_the_moment(make_job: Any) -> None:
    job = make_job()
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    for server in job.servers:
        server.is_writing = True
    job.servers[1].is_deaf = True
    saving = job.ask("trainer-0", save(job))
    job.serve()
    ticket = tick_nowait(job, "trainer-0", lease, 0, 1)
    job.serve()
    assert ticket not in job.answers, "server-1 does not hold the moment yet"
    job.servers[1].is_deaf = False
    job.serve()
    assert isinstance(job.answers[ticket], Ticked)
    assert saving not in job.answers, "nothing is written yet"
    assert job.state.durable.parts[0].round == 1
    for server in job.servers:
        server.is_writing, server.pinned_cut = False, -1
    job.serve()
    assert isinstance(job.answers[saving], Saved)
    assert job.state.durable.cut.rounds == {0: 0}, "the cut is of the moment it was begun"


def test_a_failed_cut_says_why_and_the_next_one_works(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    kept = job.state.durable.cut
    job.servers[1].trouble = "the disk is full"
    job.get("trainer-0", save(job))
    (failure,) = happened(job, "CutFailed")
    assert failure["reason"] == "the disk is full"
    assert failure["server"] == "server-1"
    assert job.state.durable.cut == kept
    folder = f"cut-{failure['cut']:06d}-t0"
    assert DropCut(folder) in job.effects, "what it wrote makes room"
    assert isinstance(job.finish("trainer-0", lease), Ticked), "training goes on"
    job.ask("trainer-0", save(job))
    job.wait(1.5)
    reasons = [a.wait.reason for a in job.answers.values() if isinstance(a, Waiting)]
    assert any("the disk is full; the next is tried in" in reason for reason in reasons)
    job.servers[1].trouble = None
    wait(job, 5)
    assert isinstance(job.get("trainer-0", save(job)), Saved)
    assert job.state.durable.cut.cut == failure["cut"] + 1


def test_cuts_that_go_on_failing_are_tried_ever_more_rarely_but_for_ever(
    make_job: Any,
) -> None:
    assert [pause_after(n) for n in (1, 2, 3, 4, 5, 99)] == [5, 10, 20, 40, 60, 60]
    job = make_job(pace=Async(), cut_every_s=1.0)
    job.open("trainer-0")
    job.lease("trainer-0")
    job.servers[0].trouble = "the disk is full"
    wait(job, 20)
    assert len(happened(job, "CutFailed")) == 3
    job.servers[0].trouble = None
    wait(job, 25)
    last = job.state.durable.cut.cut
    job.servers[0].trouble = "full again"
    wait(job, 3)
    assert last > 3
    assert happened(job, "CutFailed")[-1]["retry_s"] == 5.0, "a good cut ends the row"


def test_a_first_lease_that_waits_for_a_failed_cut_says_so(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    job.servers[0].trouble = "server-0 is still writing its share of cut 7"
    job.servers[0].is_refused = False
    ticket = job.ask("trainer-0", AskLease(**job.who("trainer-0"), stage=0))
    job.wait(1.5)
    assert "still writing" in job.answers[ticket].wait.reason


def test_storage_that_hangs_is_given_up(make_job: Any) -> None:
    job = make_job(pace=Async(), cut_every_s=0.0)
    job.open("trainer-0")
    job.lease("trainer-0")
    job.servers[0].is_writing = True
    job.ask("trainer-0", save(job))
    job.serve()
    job.now += LIMIT_S
    job.serve()
    (failure,) = happened(job, "CutFailed")
    assert failure["reason"] == "server-0 did not end writing in 1800 s"


@pytest.mark.parametrize("every", [1, 3])
def test_a_cut_is_due_after_so_many_steps(make_job: Any, every: int) -> None:
    job = make_job(cut_every_s=0.0, cut_every_steps=every)
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    taken = []
    for batch in range(4):
        job.tick("trainer-0", lease, batch, batch, round=batch + 1)
        job.serve()
        taken.append(job.state.durable.cut.rounds[0])
    assert taken == [batch // every * every for batch in range(1, 5)]
    assert job.state.durable.cut.steps == taken[-1]
    job.restart()
    job.serve()
    assert job.names().count("CutCommitted") == 1 + 4 // every, "a restart counts on"


def test_no_cut_is_due_when_they_are_off(make_job: Any) -> None:
    job = make_job(pace=Async(), cut_every_s=0.0)
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    job.wait(1.0)
    job.finish("trainer-0", lease)
    job.wait(3.0)
    assert job.names().count("CutCommitted") == 1

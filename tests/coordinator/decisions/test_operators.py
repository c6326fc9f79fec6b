"""An operator may have a checkpoint taken, and a run ended, and hears when it is so."""

from typing import Any

from paceline.config import Async
from paceline.ids import LAUNCHER, OPERATOR
from paceline.messages.shared import Done, Refusal, Waiting
from paceline.messages.trainer import Saved
from paceline.messages.watching import Interrupt, LauncherReport, TakeCut
from tests.coordinator.decisions.test_checkpoints import save, wait


def test_a_wish_is_for_a_cut_that_begins_after_it(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    job.lease("trainer-0")
    for server in job.servers:
        server.is_writing = True
    job.ask("trainer-0", save(job))
    job.serve()
    begun = job.state.durable.cut.cut + 1
    asked = job.ask(OPERATOR, TakeCut(wish="a"))
    for server in job.servers:
        server.is_writing, server.pinned_cut = False, -1
    job.serve()
    assert job.answers[asked] == Saved(cut=begun + 1)
    assert job.state.durable.cut.cut == begun + 1


def test_the_same_wish_is_one_cut_however_often_it_is_said(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    job.lease("trainer-0")
    for server in job.servers:
        server.is_writing = True
    first = job.ask(OPERATOR, TakeCut(wish="a"))
    wait(job, 2)
    told = job.answers[first]
    assert isinstance(told, Waiting)
    assert "a cut is being taken by server-0" in told.wait.reason
    again = job.ask(OPERATOR, TakeCut(wish="a"))
    for server in job.servers:
        server.is_writing = False
    job.serve()
    cut = job.state.durable.cut.cut
    assert job.answers[again] == Saved(cut=cut)
    assert job.get(OPERATOR, TakeCut(wish="a")) == Saved(cut=cut)
    assert job.state.durable.cut.cut == cut


def test_a_wished_cut_that_fails_is_tried_again(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    job.lease("trainer-0")
    job.servers[1].trouble = "the disk is full"
    job.ask(OPERATOR, TakeCut(wish="a"))
    wait(job, 1)
    again = job.ask(OPERATOR, TakeCut(wish="a"))
    wait(job, 2)
    assert "the disk is full" in job.answers[again].wait.reason
    job.servers[1].trouble = None
    wait(job, 6)
    assert isinstance(job.get(OPERATOR, TakeCut(wish="a")), Saved)


def test_where_nothing_is_shared_there_is_nothing_to_save(make_job: Any) -> None:
    job = make_job()
    refused = job.get(OPERATOR, TakeCut(wish="a"))
    assert isinstance(refused, Refusal)
    assert "nothing is shared yet" in refused.text


def test_whoever_interrupts_hears_when_the_launcher_knows(make_job: Any) -> None:
    job = make_job()
    job.open("trainer-0")
    asked = job.ask(OPERATOR, Interrupt())
    wait(job, 2)
    assert job.answers[asked].wait.kind == "launcher"
    asked = job.ask(OPERATOR, Interrupt())
    assert job.get(LAUNCHER, LauncherReport()).is_interrupted
    assert asked not in job.answers, "that answer may be lost"
    assert not job.get(LAUNCHER, LauncherReport(interrupted=True)).is_interrupted
    assert job.answers[asked] == Done()


def test_what_is_over_is_neither_saved_nor_interrupted(make_job: Any) -> None:
    job = make_job()
    job.open("trainer-0")
    waiting = [job.ask(OPERATOR, Interrupt())]
    job.get(LAUNCHER, LauncherReport(finishing=True))
    assert job.answers[waiting[0]] == Done(), "it ends"
    for message in (TakeCut(wish="a"), Interrupt()):
        assert job.get(OPERATOR, message).text == "the job is over"

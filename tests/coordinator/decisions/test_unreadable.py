"""A cut that turns out to be unreadable is skipped for an older one, within the run."""

from typing import Any

import pytest

from paceline.config import Async
from paceline.coordinator.decisions.checkpoints import Stored
from paceline.coordinator.durable.outcomes import CutCommitted, CutSkipped
from paceline.coordinator.ledgers.effects import Happened, SeekCut
from paceline.coordinator.state import CutSought
from paceline.messages.server import Restore
from paceline.messages.shared import Waiting
from paceline.messages.trainer import AskLease, Joined, JoinTrainer, Save, Saved

DAMAGE = "cut-000002-t0/server-1.safetensors: expected xxh3 1, came 2"


def stored(job: Any, cut: int) -> Stored:
    """What storage holds of an earlier cut."""
    found = next(o for o in job.outcomes if isinstance(o, CutCommitted) and o.cut == cut)
    plans = tuple(job.state.durable.parts[part].plan for part in found.parts)
    return Stored(found, plans, found.timeline)


@pytest.fixture
def job(make_job: Any) -> Any:
    """Cuts 0, 1 and 2, with a task more in each; cut 2 is damaged on its way to a disk."""
    job = make_job(pace=Async())
    job.open("trainer-0")
    for number in (1, 2):
        job.finish("trainer-0", job.lease("trainer-0"))
        job.get("trainer-0", Save(**job.who("trainer-0"), number=number))
    assert job.state.durable.cut.cut == 2
    return job


def lose_server(job: Any) -> None:
    job.servers[1] = type(job.servers[1])("server-1")
    job.servers[1].damaged[2] = DAMAGE
    job.serve()


def seeks(job: Any) -> list[SeekCut]:
    return [effect for effect in job.effects if isinstance(effect, SeekCut)]


def test_an_older_cut_is_sought_once_when_a_share_cannot_be_read(job: Any) -> None:
    lose_server(job)
    job.wait(3.0)
    assert seeks(job) == [SeekCut(2, 0, "cut-000002-t0")]
    assert job.state.durable.is_returning


def test_all_return_to_the_older_cut_together_on_a_timeline_of_its_own(job: Any) -> None:
    older = stored(job, 1)
    lose_server(job)
    job.apply(CutSought("cut-000002-t0", older))
    job.serve()
    durable = job.state.durable
    assert (durable.timeline, durable.cut.cut, durable.is_returning) == (2, 1, False)
    for server in job.servers:
        [last] = [o for o in server.seen if isinstance(o, Restore)][-1:]
        assert (last.cut, last.folder, last.timeline) == (1, "cut-000001-t0", 2)
    assert job.state.status().tasks_done == 1, "the queue is that of the older cut"
    job.join("trainer-0", previous=job.trainers["trainer-0"])
    assert job.lease("trainer-0").key.task == 1


def test_the_skipped_cut_and_the_reason_are_told(job: Any) -> None:
    older = stored(job, 1)
    lose_server(job)
    job.apply(CutSought("cut-000002-t0", older))
    skipped = next(o for o in job.outcomes if isinstance(o, CutSkipped))
    assert (skipped.cut, skipped.instead.cut) == (2, 1)
    assert DAMAGE in skipped.reason
    returned = [e for e in job.effects if isinstance(e, Happened) and e.event == "Returned"]
    assert returned[-1].fields["cut"] == 1
    assert DAMAGE in str(returned[-1].fields["reason"])


def test_the_number_of_a_skipped_cut_is_never_used_again(job: Any) -> None:
    older = stored(job, 1)
    lose_server(job)
    job.apply(CutSought("cut-000002-t0", older))
    job.serve()
    job.join("trainer-0", previous=job.trainers["trainer-0"])
    saved = job.get("trainer-0", Save(**job.who("trainer-0"), number=3))
    assert saved == Saved(cut=3)
    assert job.state.durable.cut.folder == "cut-000003-t2"


def test_without_an_older_cut_the_job_fails_and_names_the_files(job: Any) -> None:
    lose_server(job)
    nothing = "none of 2 cuts is whole: cut-000000-t0/manifest.json: missing"
    job.apply(CutSought("cut-000002-t0", Stored(), nothing))
    error = job.state.status().error
    assert DAMAGE in error
    assert nothing in error
    job.wait(3.0)
    assert len(seeks(job)) == 1, "the job has failed: nothing more is sought"


def test_a_restarted_coordinator_seeks_again(job: Any) -> None:
    lose_server(job)
    job.restart()
    job.serve()
    assert len(seeks(job)) == 2


def test_a_server_that_is_lost_while_an_older_cut_is_sought_is_heard_anew(job: Any) -> None:
    older = stored(job, 1)
    lose_server(job)
    job.servers[1] = type(job.servers[1])("server-1")  # who can read the cut after all
    job.serve()
    job.apply(CutSought("cut-000002-t0", older))
    job.serve()
    assert "CutSkipped" not in job.names()
    assert (job.state.durable.cut.cut, job.state.durable.is_returning) == (2, False)


def test_who_waits_for_work_meanwhile_is_told_why(job: Any) -> None:
    lose_server(job)
    job.join("trainer-0", previous=job.trainers["trainer-0"])
    ticket = job.ask("trainer-0", AskLease(**job.who("trainer-0"), stage=0))
    job.wait(1.5)
    answer = job.answers[ticket]
    assert isinstance(answer, Waiting)
    assert "cut-000002-t0 cannot be read" in answer.wait.reason


def test_a_save_that_lay_in_a_skipped_cut_gets_another(job: Any) -> None:
    older = stored(job, 1)
    lose_server(job)
    job.apply(CutSought("cut-000002-t0", older))
    job.serve()
    job.join("trainer-0", previous=job.trainers["trainer-0"])
    again = Save(**job.who("trainer-0"), number=2)  # its answer was lost on its way
    assert job.get("trainer-0", again) == Saved(cut=3)


def test_who_joins_learns_which_cuts_are_undone(job: Any) -> None:
    older = stored(job, 1)
    lose_server(job)
    job.apply(CutSought("cut-000002-t0", older))
    job.serve()
    join = JoinTrainer(trainer="trainer-0", pid=1, host="here")
    joined = job.get("trainer-0", join)
    assert isinstance(joined, Joined)
    assert joined.undone == ((2, 2),)

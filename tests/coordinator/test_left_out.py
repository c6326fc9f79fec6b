"""Records that a job ends without: left behind by scripts, or read by nobody."""

from typing import Any

import pytest
from msgspec import structs

from paceline.config import Async
from paceline.messages.trainer import (
    AskLease,
    FailTask,
    HandBack,
    Leave,
    Save,
    Saved,
    StageOver,
    Stop,
)
from tests.coordinator.conftest import STAGE

RECORDS = STAGE.records * STAGE.epochs


@pytest.fixture
def job(make_job: Any) -> Any:
    job = make_job(pace=Async())
    job.open("trainer-0")
    return job


def hand_back(job: Any, trainer: str, lease: Any, acked: int) -> None:
    message = HandBack(**job.who(trainer), tokens=(lease.token,), acked=(acked,))
    job.get(trainer, message)


def leave_loop(job: Any, trainer: str, left: int | None = 0) -> Any:
    return job.get(trainer, Save(**job.who(trainer), number=-1, left=left))


def test_a_job_whose_last_epoch_failed_altogether_is_broken(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0", stage=structs.replace(STAGE, epochs=1))
    for _ in range(12):
        lease = job.lease("trainer-0")
        fail = FailTask(**job.who("trainer-0"), token=lease.token, acked=-1, error="bad")
        job.get("trainer-0", fail)
    assert job.lease("trainer-0").kind == "broken"
    assert job.state.status().error == "all tasks of an epoch failed"
    assert job.state.durable.queue.stage == 0, "the stage has not ended well"


def test_what_all_went_on_from_is_left_out_and_counted(job: Any) -> None:
    job.finish("trainer-0", job.lease("trainer-0"))
    lease = job.lease("trainer-0")
    job.tick("trainer-0", lease, 0, 1)
    hand_back(job, "trainer-0", lease, 1)
    assert job.state.status().left_out == 0
    leave_loop(job, "trainer-0")
    status = job.state.status()
    assert (status.records, status.left_out) == (14, RECORDS - 14)
    assert status.left_epoch == 0


def test_the_first_epoch_that_was_left_is_named(job: Any) -> None:
    for _ in range(5):
        job.finish("trainer-0", job.lease("trainer-0"))
    leave_loop(job, "trainer-0")
    job.get("trainer-0", Leave(**job.who("trainer-0"), is_done=True))
    job.restart()
    status = job.state.status()
    assert (status.left_out, status.left_epoch) == (RECORDS - 50, 1)


def test_nothing_is_left_out_by_a_loop_that_was_trained(job: Any) -> None:
    for _ in range(8):
        job.finish("trainer-0", job.lease("trainer-0"))
    assert isinstance(job.lease("trainer-0"), StageOver)
    status = job.state.status()
    assert (status.records, status.left_out) == (RECORDS, 0)


def test_nothing_is_left_out_while_another_goes_on(make_job: Any) -> None:
    job = make_job(trainers=2, pace=Async())
    job.open("trainer-0", "trainer-1")
    ticket = job.ask("trainer-1", AskLease(**job.who("trainer-1"), stage=0))
    job.lease("trainer-0")
    lease = job.answers[ticket].lease
    hand_back(job, "trainer-1", lease, -1)
    leave_loop(job, "trainer-1")
    assert job.state.status().left_out == job.state.durable.queue.stage == 0


def test_what_a_stop_leaves_is_not_left_out(job: Any) -> None:
    job.finish("trainer-0", job.lease("trainer-0"))
    job.get("trainer-0", Stop(**job.who("trainer-0"), reason="good enough"))
    assert isinstance(job.lease("trainer-0"), StageOver)
    assert job.state.durable.queue.stage == 1
    assert job.state.status().left_out == 0


def test_who_closes_behind_a_loop_has_a_cut_and_does_not_end_it(job: Any) -> None:
    lease = job.lease("trainer-0")
    hand_back(job, "trainer-0", lease, -1)
    assert isinstance(leave_loop(job, "trainer-0", left=None), Saved)
    job.get("trainer-0", Leave(**job.who("trainer-0"), is_done=True))
    status = job.state.status()
    assert (status.left_out, job.state.durable.queue.stage) == (0, 0)
    assert status.queue.todo == 4

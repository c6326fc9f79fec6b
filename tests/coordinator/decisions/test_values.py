"""Who may set the values of all: one alone, or the first that makes the n-th call."""

from typing import Any

import pytest

from paceline.config import Async
from paceline.messages.shared import Waiting
from paceline.messages.trainer import AskLease, JoinTrainer, Leave, Save, Saved
from paceline.messages.values import ClaimValues, ValuesClaimed, ValuesSet


@pytest.fixture
def job(make_job: Any) -> Any:
    job = make_job(pace=Async())
    job.open("trainer-0")
    return job


@pytest.fixture
def two(make_job: Any) -> Any:
    job = make_job(trainers=2, pace=Async())
    job.open("trainer-0", "trainer-1")
    return job


def claim(job: Any, trainer: str, call: int = 0, stage: int | None = None) -> str:
    reply = job.get(trainer, ClaimValues(**job.who(trainer), call=call, stage=stage))
    if isinstance(reply, Waiting):
        return reply.wait.reason
    assert isinstance(reply, ValuesClaimed)
    return reply.verdict


def tell_set(job: Any, trainer: str, call: int = 0, stage: int | None = None) -> None:
    job.get(trainer, ValuesSet(**job.who(trainer), call=call, stage=stage))


def test_one_trainers_word_is_enough_until_there_are_two(job: Any) -> None:
    assert claim(job, "trainer-0") == "yours"
    tell_set(job, "trainer-0")
    job.open("trainer-1")
    assert claim(job, "trainer-0") == "several"
    job.get("trainer-1", Leave(**job.who("trainer-1")))
    assert claim(job, "trainer-0") == "yours"


def test_what_was_set_before_a_loop_is_set_once(job: Any) -> None:
    assert claim(job, "trainer-0", stage=0) == "yours"
    tell_set(job, "trainer-0", stage=0)
    assert claim(job, "trainer-0", stage=0) == "yours", "the loop could not begin, say"
    tell_set(job, "trainer-0")
    job.get("trainer-0", Leave(**job.who("trainer-0")))
    job.open("trainer-1")
    assert claim(job, "trainer-1", stage=0) == "done", "it begins at the top"
    assert claim(job, "trainer-1", stage=1) == "yours"


def test_who_comes_to_a_loop_that_has_begun_takes_what_is_there(job: Any) -> None:
    assert claim(job, "trainer-0", stage=0) == "yours"
    tell_set(job, "trainer-0", stage=0)
    tell_set(job, "trainer-0")
    assert job.lease("trainer-0").token
    job.open("trainer-1")
    assert claim(job, "trainer-1", stage=0) == "done", "no change of two trainers"
    assert claim(job, "trainer-1") == "several"


def test_those_who_are_still_to_come_count(make_job: Any) -> None:
    job = make_job(trainers=2)
    job.open("trainer-0")
    assert claim(job, "trainer-0", stage=0) == "several"


def test_before_a_loop_nobody_sets_what_is_trained_in_it(job: Any) -> None:
    assert claim(job, "trainer-0", stage=0) == "yours"
    tell_set(job, "trainer-0")
    assert claim(job, "trainer-0", stage=0) == "yours", "nothing was leased yet"
    assert job.lease("trainer-0").token
    assert claim(job, "trainer-0", stage=0) == "done"
    assert claim(job, "trainer-0", stage=1) == "yours"
    assert claim(job, "trainer-0") == "yours", "within the loop"


def test_the_first_that_calls_sets_them_and_all_others_wait_for_its_cut(two: Any) -> None:
    assert claim(two, "trainer-1", call=1) == "yours"
    assert claim(two, "trainer-0", call=1) == "trainer-1 sets the values of all"
    tell_set(two, "trainer-1", call=1)
    assert claim(two, "trainer-0", call=1) == "trainer-1 sets the values of all"
    saved = two.get("trainer-1", Save(**two.who("trainer-1"), number=9))
    assert isinstance(saved, Saved)
    assert claim(two, "trainer-1", call=1) == "done"
    assert claim(two, "trainer-0", call=1) == "done"
    assert claim(two, "trainer-0", call=2) == "yours"


def test_a_call_that_was_made_is_known_to_a_restarted_coordinator(two: Any) -> None:
    claim(two, "trainer-0", call=1)
    tell_set(two, "trainer-0", call=1)
    two.restart()
    two.serve()
    assert claim(two, "trainer-1", call=1) == "done"


def test_a_call_is_undone_with_the_cut_that_lacks_it(two: Any) -> None:
    for trainer in ("trainer-0", "trainer-1"):
        two.ask(trainer, AskLease(**two.who(trainer), stage=0))
    two.serve()
    claim(two, "trainer-0", call=1)
    tell_set(two, "trainer-0", call=1)
    assert two.state.durable.queue.values_set == 1
    two.servers[0].is_deaf = True
    two.wait(two.config.timeout_s + 1.0)
    assert two.state.durable.queue.values_set == 0


def test_who_dies_while_it_sets_them_is_fenced_before_another_does(two: Any) -> None:
    claim(two, "trainer-0", call=1)
    for server in two.servers:
        server.is_deaf = True
    two.lose("trainer-0")
    assert claim(two, "trainer-1", call=1) == "servers fence a lost trainer"
    for server in two.servers:
        server.is_deaf = False
    two.serve()
    assert claim(two, "trainer-1", call=1) == "yours"


def test_who_leaves_while_it_sets_them_is_fenced(two: Any) -> None:
    claim(two, "trainer-0", call=1)
    two.ask("trainer-0", Leave(**two.who("trainer-0")))
    assert "TrainerLost" in two.names()


def test_a_replaced_trainer_may_ask_again(two: Any) -> None:
    claim(two, "trainer-0", call=1)
    two.join("trainer-0")
    two.serve()
    assert claim(two, "trainer-0", call=1) == "yours"


def test_who_joins_is_told_how_many_trainers_the_job_has(make_job: Any) -> None:
    job = make_job(trainers=3)
    message = JoinTrainer(trainer="trainer-0", pid=1, host="here")
    assert job.get("trainer-0", message).trainers == 3

"""Whoever waits is told for whom, and since when; whoever looks sees the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paceline.config import SSP, Async, Sync
from paceline.messages.shared import Message, TrainerClock, Waiting
from paceline.messages.trainer import AskLease, Beat, BeginStage, JoinTrainer, MayGoOn, Save
from paceline.messages.waits import MOST_NAMED, Wait, wait_for
from paceline.parking import AGAIN_S
from tests.coordinator.conftest import STAGE, Job


def told(job: Job, trainer: str, message: Message, seconds: float = 1.25) -> Wait:
    """What a trainer is told that asks, and is not answered for a while."""
    ticket = job.ask(trainer, message)
    job.wait(seconds)
    answer = job.answers[ticket]
    assert isinstance(answer, Waiting), f"{answer} is no wait"
    return answer.wait


def ask(job: Job, trainer: str, stage: int = 0) -> AskLease:
    return AskLease(**job.who(trainer), stage=stage)


def seen(job: Job, trainer: str) -> Wait | None:
    """What everybody sees of it."""
    [one] = [p for p in job.state.status().processes if p.id == trainer]
    assert (one.state == "waiting") == (one.wait is not None)
    return one.wait


@pytest.fixture
def two(make_job: Any) -> Any:
    job = make_job(trainers=2, pace=Async())
    job.open("trainer-0", "trainer-1")
    return job


def test_at_the_start_members_are_waited_for_that_do_not_ask(two: Any) -> None:
    wait = told(two, "trainer-0", ask(two, "trainer-0"))
    assert (wait.kind, wait.whom) == ("members", ("trainer-1",))


def test_at_the_start_those_are_waited_for_that_have_not_come(make_job: Any) -> None:
    job = make_job(trainers=3, pace=Async())
    job.open("trainer-0")
    wait = told(job, "trainer-0", ask(job, "trainer-0"))
    assert (wait.kind, wait.whom) == ("members", ("trainer-1", "trainer-2"))
    assert wait.reason == "1 of 3 trainers have asked for work"


def test_at_the_start_nobody_is_waited_for_who_is_about_to_ask_again(make_job: Any) -> None:
    job = make_job(trainers=3, pace=Async())
    job.open("trainer-0", "trainer-1")
    job.ask("trainer-0", ask(job, "trainer-0"))
    wait = told(
        job, "trainer-1", ask(job, "trainer-1")
    )  # that of trainer-0 is put off, too
    assert wait.whom == ("trainer-2",)
    assert wait.reason == "2 of 3 trainers have asked for work"


def test_who_asks_again_waits_since_it_asked_first(two: Any) -> None:
    lasted = [told(two, "trainer-0", ask(two, "trainer-0")).since_s for _ in range(12)]
    assert lasted == sorted(lasted)
    assert lasted[0] == pytest.approx(1.0)
    assert lasted[-1] == pytest.approx(1.0 + 11 * 1.25)
    found = seen(two, "trainer-0")
    assert found is not None
    assert found.since_s == pytest.approx(12 * 1.25)


def test_who_comes_again_much_later_waits_anew(two: Any) -> None:
    told(two, "trainer-0", ask(two, "trainer-0"))
    two.wait(AGAIN_S + 1.0)
    assert seen(two, "trainer-0") is None, "nobody is asking"
    assert told(two, "trainer-0", ask(two, "trainer-0")).since_s == pytest.approx(1.0)


def test_who_is_answered_waits_no_more(two: Any) -> None:
    told(two, "trainer-0", ask(two, "trainer-0"))
    two.ask("trainer-1", ask(two, "trainer-1"))
    assert two.lease("trainer-0").key.task == 0
    assert seen(two, "trainer-0") is None
    assert seen(two, "trainer-1") is None


def test_a_round_waits_for_who_has_not_come(make_job: Any) -> None:
    job = make_job(trainers=2, pace=Sync())
    job.open("trainer-0", "trainer-1")
    job.ask("trainer-1", ask(job, "trainer-1"))
    lease = job.lease("trainer-0")
    ticket = job.ask_tick("trainer-0", lease, 0, 0, round=1)
    job.wait(1.25)
    wait = job.answers[ticket].wait
    assert wait == Wait("round", "round 1 waits for trainer-1", ("trainer-1",), 0, 1.0)
    found = seen(job, "trainer-0")
    assert found is not None
    assert found == replace(wait, since_s=found.since_s)


def test_a_bound_waits_for_the_slowest(make_job: Any) -> None:
    job = make_job(trainers=2, pace=SSP(1))
    job.open("trainer-0", "trainer-1")
    job.ask("trainer-1", ask(job, "trainer-1"))
    lease = job.lease("trainer-0")
    clock = TrainerClock(lease.entry, 3)
    on = MayGoOn(**job.who("trainer-0"), clock=clock, staleness=1)
    wait = told(job, "trainer-0", on)
    assert (wait.kind, wait.whom) == ("clock", ("trainer-1",))


def test_the_end_of_an_epoch_waits_for_who_has_the_last_tasks(two: Any) -> None:
    two.ask("trainer-1", ask(two, "trainer-1"))
    held = [two.lease("trainer-0")]
    while len(held) < 3:
        held.append(two.lease("trainer-0", *[(one.token, -1) for one in held]))
    for lease in held:
        two.finish("trainer-0", lease)
    wait = told(two, "trainer-0", ask(two, "trainer-0"))
    assert (wait.kind, wait.whom) == ("lease", ("trainer-1",))


def test_a_later_loop_waits_for_who_is_in_the_one_before(two: Any) -> None:
    for trainer in ("trainer-1", "trainer-0"):
        two.ask(trainer, ask(two, trainer))
    two.serve()
    two.get("trainer-0", BeginStage(**two.who("trainer-0"), spec=replace(STAGE, stage=1)))
    lease = two.lease("trainer-0")
    two.finish("trainer-0", lease)
    wait = told(two, "trainer-0", ask(two, "trainer-0", stage=1))
    assert (wait.kind, wait.whom) == ("stage", ("trainer-1",))


def test_a_cut_waits_for_the_servers_that_write_it(two: Any) -> None:
    for trainer in ("trainer-1", "trainer-0"):
        two.ask(trainer, ask(two, trainer))
    two.serve()
    two.servers[1].is_writing = True
    wait = told(two, "trainer-0", Save(**two.who("trainer-0"), number=1))
    assert (wait.kind, wait.whom) == ("cut", ("server-1",))


def test_who_joins_waits_for_the_servers_that_are_away(make_job: Any) -> None:
    job = make_job(trainers=1, servers=2, pace=Async())
    job.servers[1].is_deaf = True
    job.serve()
    message = JoinTrainer(trainer="trainer-0", pid=1, host="here", previous=0)
    joined = job.get("trainer-0", message)
    assert not joined.servers
    assert (joined.wait.kind, joined.wait.whom) == ("servers", ("server-1",))
    job.wait(4.0)
    job.get("trainer-0", replace(message, previous=joined.incarnation))
    found = seen(job, "trainer-0")
    assert found is not None
    assert found.since_s == pytest.approx(4.0), "it is the same wait"


def test_what_a_trainer_tells_lasts_until_it_asks_for_something(two: Any) -> None:
    wait = Wait("lock", "trainer-1 holds row 3", ("trainer-1",), since_s=7.0)
    two.get("trainer-0", Beat(**two.who("trainer-0"), clock=0, wait=wait))
    two.wait(3.0)
    assert seen(two, "trainer-0") == replace(wait, since_s=10.0)
    two.ask("trainer-0", ask(two, "trainer-0"))
    assert seen(two, "trainer-0") is None


@given(st.sets(st.integers(0, 40)))
def test_a_wait_names_a_few_and_counts_the_rest(numbers: set[int]) -> None:
    roles = {f"trainer-{number}" for number in numbers}
    wait = wait_for("round", "r", roles)
    assert len(wait.whom) == min(len(roles), MOST_NAMED)
    assert len(wait.whom) + wait.more == len(roles)
    assert wait.whom == tuple(sorted(roles)[:MOST_NAMED])

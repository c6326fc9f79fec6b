"""Rounds that close with a quorum and a grace window, and what becomes of those behind."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import DiLoCo
from paceline.coordinator.durable.outcomes import RoundCommitted
from paceline.coordinator.ledgers.quorum import LARGEST_SHARE, Quorum, decide_grace
from paceline.messages.server import CommitRound
from paceline.messages.shared import Refusal, Waiting
from paceline.messages.trainer import AskLease, Ticked

NAMES = ("trainer-0", "trainer-1", "trainer-2")
SECONDS = st.floats(0, 1e6)


def opened(make_job: Any, **pace: Any) -> Any:
    job = make_job(trainers=3, pace=DiLoCo(every=5, **pace), timeout_s=60.0)
    job.open(*NAMES)
    tickets = [job.ask(name, AskLease(**job.who(name), stage=0)) for name in NAMES]
    job.serve()
    job.held = {n: job.answers[t].lease for n, t in zip(NAMES, tickets, strict=True)}
    return job


@pytest.fixture
def two_of_three(make_job: Any) -> Any:
    return opened(make_job, quorum=2, grace=3.0)


def push(job: Any, trainer: str, batch: int, number: int, at: int, **more: Any) -> int:
    """Tick the prepared delta of one batch, whose values were of round ``at - 1``."""
    ticket: int = job.ask_tick(
        trainer, job.held[trainer], batch, batch, round=at, number=number, **more
    )
    return ticket


def rounds(job: Any) -> list[tuple[str, ...]]:
    """Who was in each round."""
    committed = [o for o in job.outcomes if isinstance(o, RoundCommitted)]
    return [tuple(c.trainer for c in one.contributions) for one in committed]


def test_a_round_closes_when_its_quorum_has_waited_for_the_others(
    two_of_three: Any,
) -> None:
    job = two_of_three
    first = push(job, "trainer-0", 0, 1, at=1)
    job.wait(20)
    assert not rounds(job), "one delta is no quorum, however long it waits"
    push(job, "trainer-2", 0, 1, at=1)
    job.wait(2.5)
    assert not rounds(job)
    job.wait(1)
    assert rounds(job) == [("trainer-0", "trainer-2")]
    assert isinstance(job.answers[first], Waiting), "it has asked for longer than that"


def test_a_round_waits_no_longer_when_all_have_come(two_of_three: Any) -> None:
    for trainer in NAMES:
        push(two_of_three, trainer, 0, 1, at=1)
    assert rounds(two_of_three) == [NAMES]


def test_who_comes_later_is_in_the_round_behind(two_of_three: Any) -> None:
    job = two_of_three
    for trainer in NAMES[:2]:
        push(job, trainer, 0, 1, at=1)
    job.wait(4)
    behind = push(job, "trainer-2", 0, 1, at=1)
    assert behind not in job.answers
    again = push(job, "trainer-0", 1, 2, at=2)
    job.wait(0.5)
    assert len(rounds(job)) == 1
    push(job, "trainer-1", 1, 2, at=2)
    assert rounds(job) == [NAMES[:2], NAMES]
    for ticket in (behind, again):
        assert (job.answers[ticket].round, job.answers[ticket].late) == (2, None)
    assert job.state.status().records == 5 * 2, "each of five deltas counts, once"


def test_a_push_that_missed_several_rounds_counts_in_one(two_of_three: Any) -> None:
    job = two_of_three
    for number in range(1, 4):
        for trainer in NAMES[:2]:
            push(job, trainer, number - 1, number, at=number)
        job.wait(4)
    last = push(job, "trainer-2", 0, 1, at=1)
    push(job, "trainer-0", 3, 4, at=4)
    job.wait(4)
    assert rounds(job) == [NAMES[:2]] * 3 + [("trainer-0", "trainer-2")]
    assert job.answers[last] is not None
    repeated = job.answers[push(job, "trainer-2", 0, 1, at=1)]
    assert (type(repeated), repeated.round) == (Ticked, 4), "its answer may have been lost"


def test_weights_are_by_records(two_of_three: Any) -> None:
    job = two_of_three
    job.ask_tick("trainer-0", job.held["trainer-0"], 0, 2, round=1, number=1)
    push(job, "trainer-1", 0, 1, at=1)
    job.wait(4)
    [committed] = [o for o in job.outcomes if isinstance(o, RoundCommitted)]
    assert [c.weight for c in committed.contributions] == [0.75, 0.25]


def test_a_death_costs_its_own_part_which_runs_again(two_of_three: Any) -> None:
    job = two_of_three
    push(job, "trainer-0", 0, 1, at=1)
    push(job, "trainer-1", 0, 1, at=1)
    lost = job.held["trainer-1"].key
    job.lose("trainer-1")
    assert not rounds(job), "its delta is gone, and one is no quorum"
    push(job, "trainer-2", 0, 1, at=1)
    assert rounds(job) == [("trainer-0", "trainer-2")], "all who are left have come"
    job.join("trainer-1")
    held = job.held["trainer-0"], 0
    assert job.lease("trainer-1").key == lost
    assert held


def test_fewer_trainers_than_the_quorum_are_quorum_enough(two_of_three: Any) -> None:
    for trainer in NAMES[1:]:
        two_of_three.lose(trainer)
    push(two_of_three, "trainer-0", 0, 1, at=1)
    assert rounds(two_of_three) == [("trainer-0",)]


def test_no_round_closes_that_servers_could_not_be_sent_later(make_job: Any) -> None:
    """Each of three contributes to a round of its own, and no server has heard of any."""
    job = opened(make_job, quorum=1, grace=0.0)
    for server in job.servers:
        server.is_deaf = True
    for trainer in NAMES:
        push(job, trainer, 0, 1, at=1)
    assert len(rounds(job)) == 2
    for server in job.servers:
        server.is_deaf = False
    job.serve()
    assert len(rounds(job)) == 3
    for server in job.servers:
        seen = [order.round for order in server.seen if isinstance(order, CommitRound)]
        assert seen == [1, 2, 3]


def test_a_restarted_coordinator_closes_rounds_of_whoever_asks_again(
    two_of_three: Any,
) -> None:
    job = two_of_three
    push(job, "trainer-0", 0, 1, at=1)
    job.restart()
    job.serve()
    for trainer in NAMES[:2]:
        push(job, trainer, 0, 1, at=1)
    job.wait(4)
    assert rounds(job) == [NAMES[:2]]


def test_who_repeats_what_was_applied_waits_for_no_quorum(two_of_three: Any) -> None:
    alone = push(two_of_three, "trainer-0", 0, 1, at=1, is_prepared=False)
    answer = two_of_three.answers[alone]
    assert (type(answer), answer.round) == (Ticked, 0)
    assert not rounds(two_of_three)


def test_a_push_of_a_lease_that_is_over_is_refused(two_of_three: Any) -> None:
    job = two_of_three
    lease = job.held["trainer-0"]
    job.held["trainer-1"] = lease
    assert isinstance(job.answers[push(job, "trainer-1", 0, 1, at=1)], Refusal)


def test_status_says_what_a_round_waits_for(two_of_three: Any) -> None:
    job = two_of_three
    ticket = push(job, "trainer-0", 0, 1, at=1)
    job.wait(1.5)
    assert job.answers[ticket].wait.reason == "the round after 0: 1 of 2 deltas are there"
    push(job, "trainer-1", 0, 1, at=1)
    ticket = push(job, "trainer-0", 0, 1, at=1)
    job.wait(1.25)
    assert "the round after 0: it closes in" in job.answers[ticket].wait.reason


# ------------------------------------------------------------ how long the window is


def test_the_window_is_as_long_as_others_come_behind() -> None:
    lags = [0.5, 0.6, 0.7, 0.6, 0.5]
    assert decide_grace([100.0], lags) == pytest.approx(0.6 + 3 * 0.1)


def test_who_is_far_behind_is_not_waited_for() -> None:
    assert decide_grace([100.0], [60.0, 40.0, 80.0]) == 0.0
    assert decide_grace([100.0], [60.0, 40.0, 1.0]) == 1.0


def test_before_anything_is_known_of_others_the_window_is_whole() -> None:
    assert decide_grace([], []) == 0.0
    assert decide_grace([20.0, 22.0, 24.0], []) == pytest.approx(LARGEST_SHARE * 22)


@given(st.lists(SECONDS, max_size=9), st.lists(SECONDS, max_size=9))
def test_the_window_is_never_more_than_its_share_of_a_round(
    lengths: list[float], lags: list[float]
) -> None:
    assert 0 <= decide_grace(lengths, lags) <= LARGEST_SHARE * max(lengths, default=0.0)


def test_trainers_of_one_speed_stay_in_one_round() -> None:
    quorum = Quorum()
    now_s = 0.0
    for _ in range(5):
        began_s, here = now_s, set()
        for number in range(4):
            now_s = began_s + 50 + number
            is_open = quorum.until_s is None or now_s <= quorum.until_s
            assert is_open, f"{number} was not waited for"
            quorum.came(f"trainer-{number}", now_s, began_s)
            here.add(f"trainer-{number}")
            quorum.look(set(here), 2, "auto", now_s)
        quorum.closed()


def test_a_window_of_seconds_is_as_long_as_it_says() -> None:
    quorum = Quorum()
    quorum.came("trainer-0", 10.0, None)
    quorum.look({"trainer-0"}, 1, 7.5, 10.0)
    assert quorum.until_s == 17.5

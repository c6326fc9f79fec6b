"""Of a trainer and a server that do not reach each other one is lost."""

from paceline.coordinator.ledgers.members import Loss
from paceline.coordinator.ledgers.unreached import Unreached

TIMEOUT_S = 10.0
TRAINERS = {"trainer-0": 1, "trainer-1": 2, "trainer-2": 3}
SERVERS = {"server-0": 7, "server-1": 8}


def told(*trainers: int, server: str = "server-0") -> Unreached:
    """These tell at 0 that they do not reach a server."""
    unreached = Unreached(TIMEOUT_S)
    for trainer in trainers:
        unreached.note(trainer, {server: SERVERS[server]}, 0.0)
    return unreached


def losses(unreached: Unreached, now: float = TIMEOUT_S) -> list[Loss]:
    return unreached.losses(TRAINERS, SERVERS, now)


def test_who_alone_does_not_reach_a_server_is_lost_after_one_time_out() -> None:
    unreached = told(2)
    assert losses(unreached, TIMEOUT_S - 0.1) == []
    reason = "trainer-1 does not reach server-0, which is there"
    assert losses(unreached) == [Loss(2, "unreached", reason)]


def test_a_server_that_most_do_not_reach_is_lost_and_they_are_not() -> None:
    reason = "server-0 is not reached by trainer-0, trainer-2, of 3 trainers"
    assert losses(told(1, 3)) == [Loss(7, "unreached", reason)]


def test_a_server_is_lost_however_late_most_trainers_say_so() -> None:
    """Each has its own clock: of eight none is given up before the others are heard."""
    trainers = {f"trainer-{n}": n for n in range(1, 9)}
    unreached = Unreached(TIMEOUT_S)
    for trainer in trainers.values():
        unreached.note(trainer, {"server-0": 7}, 0.2 * trainer)
    [loss] = unreached.losses(trainers, SERVERS, TIMEOUT_S + 0.2)
    assert loss.incarnation == 7


def test_of_two_that_disagree_and_of_one_alone_the_trainer_is_lost() -> None:
    two = {"trainer-0": 1, "trainer-1": 2}
    for trainers in (two, {"trainer-1": 2}):
        [loss] = told(2).losses(trainers, SERVERS, TIMEOUT_S)
        assert loss.incarnation == 2


def test_what_lasts_is_counted_from_when_it_was_told_first() -> None:
    unreached = told(2)
    unreached.note(2, {"server-0": 7, "server-1": 8}, 6.0)
    assert [loss.incarnation for loss in losses(unreached)] == [2]
    unreached.note(2, {"server-1": 8}, 11.0)
    assert losses(unreached, 15.9) == []
    assert [loss.incarnation for loss in losses(unreached, 16.0)] == [2]


def test_who_is_reached_again_or_has_been_replaced_costs_nobody() -> None:
    unreached = told(1, 2)
    unreached.note(1, {}, 5.0)
    unreached.forget(2)
    assert losses(unreached, 60.0) == []
    assert told(1, 3).losses(TRAINERS, {"server-0": 9}, 60.0) == []
    unreached = told(1, 3)
    unreached.drop()
    assert losses(unreached, 60.0) == []


def test_time_in_which_nobody_could_be_heard_does_not_count() -> None:
    unreached = told(2)
    unreached.excuse(4.0)
    assert losses(unreached, TIMEOUT_S + 3.9) == []
    assert len(losses(unreached, TIMEOUT_S + 4.0)) == 1

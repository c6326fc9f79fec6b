"""What becomes of a host whose agent has ended, or whose actor does not answer."""

import signal

from paceline.errors import PREEMPTED_EXIT_CODE
from paceline.launch.engines.ray.standing import Standing, WaitingPlaces, who_yields
from paceline.launch.engines.ray.wish import RayHost, server_host

TRAINERS = RayHost("trainers-0", (), (("CPU", 1.0),), threads=1)
KILLED = -signal.SIGKILL


def there(host: RayHost = TRAINERS, now: float = 0.0) -> Standing:
    one = Standing(host, now)
    one.runs("node", now)
    return one


def test_who_has_heard_that_the_job_is_over_is_not_started_again() -> None:
    one = there()

    assert one.ended(0, 1.0) == "nothing"
    assert one.is_done


def test_an_agent_that_ends_is_started_again_later_and_later() -> None:
    one, pauses = there(), []

    for _ in range(7):
        assert one.ended(KILLED, 1.0) == "again"
        pauses.append(one.due_s - 1.0)
        assert one.is_to_restart
        one.restarts(one.due_s)
        assert not one.is_to_restart
        one.runs("node", 1.0)

    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert one.ended(KILLED, 100.0) == "again"
    assert one.due_s == 101.0, "it ran well meanwhile"


def test_a_machine_that_cannot_take_part_is_tried_three_times() -> None:
    one = there()

    assert [one.ended(2, 1.0) for _ in range(3)] == ["again", "again", "gone"]
    assert one.is_done


def test_who_leaves_a_drained_machine_comes_back_at_once() -> None:
    one = there()
    one.leaves()

    assert one.ended(PREEMPTED_EXIT_CODE, 5.0) == "again"
    assert one.due_s == 5.0
    assert one.state == "waiting"


def test_servers_leave_the_place_that_ray_keeps_on_a_drained_machine() -> None:
    one = there(server_host(0, 0))
    one.leaves()

    assert one.ended(PREEMPTED_EXIT_CODE, 5.0) == "elsewhere"


def test_an_actor_that_does_not_answer_is_news_once() -> None:
    one = there()

    assert [one.unreached(1.0), one.unreached(2.0)] == [True, False]
    assert one.due_s == 3.0
    one.runs("other", 4.0)
    assert (one.state, one.node) == ("there", "other")


def test_a_trainers_host_gives_its_place_to_servers_that_have_none_for_long() -> None:
    servers, first = Standing(server_host(0, 0), 0.0), there()
    last = there(TRAINERS._replace(name="trainers-1"))

    assert who_yields([servers, first, last], 9.0) is None
    assert who_yields([servers], 11.0) is None
    assert who_yields([servers, there(server_host(1, 1)), last], 11.0) is None
    assert who_yields([servers, first, last], 11.0) is last
    last.leaves(yields=True)
    assert who_yields([servers, first, last], 12.0) is None, "one at a time"
    assert last.ended(PREEMPTED_EXIT_CODE, 13.0) == "held"


def test_who_waits_for_a_place_is_told_when_that_changes() -> None:
    waiting, hosts = WaitingPlaces(), [Standing(TRAINERS, 0.0)]

    assert waiting.tell(hosts, "", 4.0) is None
    told = waiting.tell(hosts, "", 6.0)
    assert told == "waiting for 6 s for a place in the cluster: trainers-0"
    assert waiting.tell(hosts, "", 80.0) is None, "more trainers may wait for ever"
    hosts[0].runs("node", 80.0)
    assert waiting.tell(hosts, "", 81.0) is None


def test_why_servers_have_no_place_is_told_every_minute() -> None:
    waiting, hosts = WaitingPlaces(), [Standing(server_host(0, 0), 0.0)]

    told = [waiting.tell(hosts, "NO_RESOURCES for [CPU=1]", now) for now in (6, 30, 70)]

    assert told[0] is not None
    assert told[0].endswith("of that for servers Ray says: NO_RESOURCES for [CPU=1]")
    assert told[1] is None
    assert told[2] is not None
    assert told[2].startswith("waiting for 70 s")


def test_of_many_that_wait_a_few_are_named() -> None:
    hosts = [Standing(TRAINERS._replace(name=f"trainers-{n}"), 0.0) for n in range(9)]

    told = WaitingPlaces().tell(hosts, "", 6.0)

    assert told is not None
    assert told.endswith("trainers-0, trainers-1, trainers-2, trainers-3 and 5 more")

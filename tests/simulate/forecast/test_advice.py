"""What to buy is said in plain words, and each number was forecast."""

import re

import pytest

from paceline.config import Async, Pace, Sync
from paceline.simulate.forecast.advice import advise
from paceline.simulate.forecast.models import Fixed, Slow
from paceline.simulate.forecast.plan import Plan

# A pull and a push of 4 MB each 10 ms by 32 trainers: two servers' networks are too slow.
CROWDED = Plan(
    trainers=32, servers=2, steps=20, compute=Fixed(0.01), parameter_bytes=4 * 10**6
)


def sentences(plan: Plan, *paces: Pace) -> str:
    return "\n".join(advise(plan, paces).sentences)


def test_more_servers_are_advised_where_they_are_the_limit() -> None:
    said = sentences(CROWDED, Async())
    assert "a server's network" in said
    assert "and that is the limit" in said
    assert "take 4" in said


def test_fewer_servers_are_advised_where_they_idle() -> None:
    said = sentences(Plan(trainers=4, servers=8, steps=20), Async())
    assert "4 are enough" in said


def test_every_number_was_forecast() -> None:
    advice = advise(CROWDED, [Async()])
    tried = {one.servers: one for one in advice.tried if one.trainers == CROWDED.trainers}
    now = tried[2].records_per_second
    for servers, gain in re.findall(r"2 -> (\d+) \(([+-]\d+) %\)", advice.sentences[1]):
        found = 100 * (tried[int(servers)].records_per_second / now - 1)
        assert int(gain) == pytest.approx(found, abs=0.51)


def test_the_fastest_pace_is_named_with_what_it_costs() -> None:
    plan = Plan(trainers=8, steps=20, compute=Slow(0.05, 4, 1))
    last = advise(plan, [Sync(), Async()]).sentences[-1]
    assert last.startswith("async is the fastest: ")
    assert "updates old on average" in last


def test_one_trainer_and_one_server_have_no_fewer() -> None:
    advice = advise(Plan(steps=10), [Sync()])
    assert all(one.servers >= 1 and one.trainers >= 1 for one in advice.tried)

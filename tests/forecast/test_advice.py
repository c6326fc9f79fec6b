"""What to buy is said in plain words, and each number was forecast."""

import re

import pytest

from paceline.config import Async, Pace, Sync
from paceline.forecast.advice import advise
from paceline.forecast.models import Fixed, Slow
from paceline.forecast.plan import Plan

# A pull and a push of 4 MB each 10 ms by 32 trainers: two servers' networks are too slow.
CROWDED = Plan(
    trainers=32, servers=2, steps=20, compute=Fixed(0.01), parameter_bytes=4 * 10**6
)


def sentences(plan: Plan, *paces: Pace) -> str:
    return "\n".join(advise(plan, paces, print).sentences)


def test_more_servers_are_advised_where_they_are_the_limit() -> None:
    said = sentences(CROWDED, Async())
    assert "a server's network" in said
    assert "and that is the limit" in said
    assert "take 4" in said


def test_fewer_servers_are_advised_where_they_idle() -> None:
    said = sentences(Plan(trainers=4, servers=8, steps=20), Async())
    assert "4 are enough" in said


def test_every_number_was_forecast() -> None:
    advice = advise(CROWDED, [Async()], print)
    tried = {one.servers: one for one in advice.tried if one.trainers == CROWDED.trainers}
    now = tried[2].records_per_second
    for servers, gain in re.findall(r"2 -> (\d+) \(([+-]\d+) %\)", advice.sentences[1]):
        found = 100 * (tried[int(servers)].records_per_second / now - 1)
        assert int(gain) == pytest.approx(found, abs=0.51)


def test_the_fastest_pace_is_named_with_what_it_costs() -> None:
    plan = Plan(trainers=8, steps=20, compute=Slow(0.05, 4, 1))
    *_, last, _ = advise(plan, [Sync(), Async()], print).sentences
    assert last.startswith("async is the fastest: ")
    assert "updates old on average" in last


def test_one_trainer_and_one_server_have_no_fewer() -> None:
    advice = advise(Plan(steps=10), [Sync()], print)
    assert all(one.servers >= 1 and one.trainers >= 1 for one in advice.tried)


def test_to_buy_are_the_fewest_servers_that_come_near_the_fastest() -> None:
    advice = advise(CROWDED, [Sync(), Async(push_every=4, pull_every=8)], print)
    found = re.search(r"32 trainers: (\d+) servers?, with (\S+):", advice.sentences[-1])
    assert found
    tried = [one for one in advice.tried if one.trainers == 32]
    fastest = max(one.records_per_second for one in tried)
    [bought] = [
        one for one in tried if (str(one.servers), one.pace) == (found[1], found[2])
    ]
    assert bought.records_per_second >= 0.95 * fastest
    fewer = [one for one in tried if one.servers < bought.servers]
    assert all(one.records_per_second < 0.95 * fastest for one in fewer)


def test_records_that_come_too_late_are_not_bought() -> None:
    plan = Plan(trainers=4, steps=50, compute=Slow(0.05, 4, 1))
    advice = advise(plan, [Sync(backup=1)], print)
    now = next(one for one in advice.tried if (one.trainers, one.servers) == (4, 1))
    assert now.late > 0.05
    told = re.search(r"([\d,]+) records/s\. No fewer", advice.sentences[-1])
    assert told
    assert float(told[1]) == pytest.approx(now.records_per_second * (1 - now.late), abs=1)


def test_records_that_come_too_late_are_no_gain_of_a_pace() -> None:
    plan = Plan(trainers=4, steps=50, compute=Slow(0.05, 4, 1))
    advice = advise(plan, [Sync(), Sync(backup=1)], print)
    alike = [one for one in advice.tried if (one.trainers, one.servers) == (4, 1)]
    lockstep, backup = alike[:2]
    told = re.search(
        r"sync:backup=1 is the fastest: ([\d.]+) times sync", "\n".join(advice.sentences)
    )
    assert told
    gain = backup.records_per_second * (1 - backup.late) / lockstep.records_per_second
    assert float(told[1]) == pytest.approx(gain, abs=0.01)
    assert gain < backup.records_per_second / lockstep.records_per_second - 0.1

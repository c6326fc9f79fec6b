"""What to buy: the same job forecast on a small grid of other machines, in plain words.

Nothing is extrapolated: each number in a sentence is of a forecast of its own, by the very
same draws. A change counts as a gain from `WORTH` on. Gains are in records that have an
effect: those of a push that comes too late for its round are none.

Pure.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from paceline.config import Pace
from paceline.forecast.job import Forecast, forecast
from paceline.forecast.plan import Plan

SERVERS = (0.5, 1.25, 2.0)
TRAINERS = (0.5, 1.25, 2.0)
MOST_STEPS = 50  # of each trainer: enough to compare
WORTH = 0.05
BUSY = 0.85
_EFFECT = attrgetter("effective_per_second")


class Advice(NamedTuple):
    """Sentences, and the forecasts that they rest on."""

    sentences: tuple[str, ...]
    tried: tuple[Forecast, ...]


def advise(plan: Plan, paces: Sequence[Pace], tell: Callable[[str], None]) -> Advice:
    """Forecast each pace with fewer and more servers and trainers, and say what pays.

    ``tell`` is told what is forecast next.
    """
    if not plan.records:
        plan = replace(plan, steps=min(plan.steps, MOST_STEPS))
    sentences: list[str] = []
    tried: list[Forecast] = []
    asked: list[Forecast] = []

    def found(one: Plan) -> Forecast:
        tell(f"forecast: {one.pace}, {one.trainers:,} trainers, {one.servers:,} servers")
        return forecast(one)

    for pace in paces:
        here = replace(plan, pace=pace)
        now = found(here)
        servers, trainers = (
            _numbers(plan.servers, SERVERS),
            _numbers(plan.trainers, TRAINERS),
        )
        by_servers = [found(replace(here, servers=n)) for n in servers]
        by_trainers = [found(replace(here, trainers=n)) for n in trainers]
        sentences += [what_limits(now), *about_servers(now, by_servers)]
        sentences += about_trainers(now, by_trainers)
        asked.append(now)
        tried += [now, *by_servers, *by_trainers]
    if len(asked) > 1:
        sentences.append(which_pace(asked))
    sentences.append(what_to_buy([one for one in tried if one.trainers == plan.trainers]))
    return Advice(tuple(sentences), tuple(tried))


def what_limits(now: Forecast) -> str:
    """What the job is held up by, as it is."""
    begins = f"{now.pace}: {now.records_per_second:,.0f} records/s; "
    name, busy = _busiest(now)
    computes = now.spells["computing"]
    if busy >= BUSY:
        return f"{begins}{name} is busy {100 * busy:.0f} %, and that is the limit."
    if computes >= 1 - WORTH:
        return f"{begins}trainers compute {100 * computes:.0f} % of their time."
    waits = max(("servers", "coordinator"), key=lambda spell: now.spells[spell])  # type: ignore[index]  # both are spells
    whom = "for servers" if waits == "servers" else "for each other"
    share = now.spells[waits]  # type: ignore[index]  # as above
    return (
        f"{begins}trainers compute {100 * computes:.0f} % of their time and wait {whom} "
        f"{100 * share:.0f} %; {name} is busy {100 * busy:.0f} %."
    )


def about_servers(now: Forecast, others: Sequence[Forecast]) -> list[str]:
    """Whether more servers pay, or fewer do."""
    fewer = [one for one in others if one.servers < now.servers]
    more = [one for one in others if one.servers > now.servers]
    said = [f"{now.servers} -> {one.servers} ({_gain(now, one)})" for one in fewer + more]
    enough = min(
        (one for one in [now, *others] if _is_near(one, [now, *others])),
        key=lambda one: one.servers,
    )
    if enough.servers > now.servers:
        verdict = f"take {enough.servers}"
    elif enough.servers < now.servers:
        verdict = f"{enough.servers} are enough"
    else:
        verdict = f"{now.servers} are right"
    return [f"{now.pace}: servers {', '.join(said)}: {verdict}."] if said else []


def about_trainers(now: Forecast, others: Sequence[Forecast]) -> list[str]:
    """What more trainers bring, beside what they cost."""
    if not others:
        return []
    said = [f"{now.trainers} -> {one.trainers} ({_gain(now, one)})" for one in others]
    most = max(others, key=lambda one: one.trainers)
    verdict = ""
    if most.trainers > now.trainers:
        per_trainer = most.effective_per_second / now.effective_per_second
        share = (per_trainer - 1) / (most.trainers / now.trainers - 1)
        verdict = f": a further trainer brings {max(0.0, 100 * share):.0f} % of a trainer"
    return [f"{now.pace}: trainers {', '.join(said)}{verdict}."]


def which_pace(asked: Sequence[Forecast]) -> str:
    """The fastest pace of those asked for, and what it costs in age."""
    fastest = max(asked, key=_EFFECT)
    others = [one for one in asked if one is not fastest]
    ratios = ", ".join(
        f"{fastest.effective_per_second / one.effective_per_second:.2f} times {one.pace}"
        for one in others
    )
    oldest = fastest.ages
    return (
        f"{fastest.pace} is the fastest: {ratios}. Its pushes are {oldest.mean:,.1f} "
        f"updates old on average (99 %: at most {oldest.p99:,}); what that does to "
        f"learning, only training tells."
    )


def what_to_buy(tried: Sequence[Forecast]) -> str:
    """The fewest servers, and with which pace, that come near the fastest of all tried."""
    most = max(one.effective_per_second for one in tried)
    near = [one for one in tried if one.effective_per_second >= (1 - WORTH) * most]
    fewest = min(one.servers for one in near)
    best = max((one for one in near if one.servers == fewest), key=_EFFECT)
    servers = "server" if best.servers == 1 else "servers"
    trainers = "trainer" if best.trainers == 1 else "trainers"
    return (
        f"to buy for {best.trainers:,} {trainers}: {best.servers:,} {servers}, with "
        f"{best.pace}: {best.effective_per_second:,.0f} records/s. No fewer of those "
        f"tried come within {100 * WORTH:.0f} % of the fastest."
    )


def _numbers(now: int, factors: Sequence[float]) -> list[int]:
    """Other numbers of machines, ascending."""
    return sorted({max(1, round(now * factor)) for factor in factors} - {now})


def _busiest(now: Forecast) -> tuple[str, float]:
    server = now.server
    found = {
        "a server's processor": server.cpu.busy,
        "a server's network (in)": server.inward.busy,
        "a server's network (out)": server.outward.busy,
        "the coordinator": now.coordinator.busy,
    }
    name = max(found, key=lambda one: found[one])
    return name, found[name]


def _gain(now: Forecast, other: Forecast) -> str:
    gain = other.effective_per_second / now.effective_per_second - 1
    return f"{100 * gain:+.0f} %"


def _is_near(one: Forecast, all_tried: Sequence[Forecast]) -> bool:
    best = max(other.effective_per_second for other in all_tried)
    return one.effective_per_second >= (1 - WORTH) * best

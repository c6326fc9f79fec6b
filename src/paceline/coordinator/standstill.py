"""When nobody can move: open rounds of several parts that wait for each other.

::

    part 0    trainer-0 has come, trainer-1 is missing
    part 1    trainer-1 has come, trainer-0 is missing      both wait, and for ever

A round in which somebody is missing who works may close yet. It never does if more are
missing than its pace does without who wait in rounds of this kind themselves: trainers
have stepped their parts in different orders. It is told once all who train wait so, since
as long as one of them moves it may leave, and change everything.

A trainer that computes on while its push is under way does not wait there, and of fragments
the script does not choose the order: such parts are not looked at, nor those that close
without whoever is missing.

Pure.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from paceline.coordinator.book import Book
from paceline.coordinator.rounds import participants
from paceline.messages import PartSpec, Refusal
from paceline.pace.fragments import takes_turns
from paceline.pace.policy import backups_of, is_in_step


class OpenRound(NamedTuple):
    """Who waits in the open round of a part, and how many others it does without."""

    here: Collection[str]
    spare: int = 0


class Waiter(NamedTuple):
    """A trainer, the part in whose open round it waits, and one where it is missing."""

    trainer: str
    waits_in: int
    lacks: int


def decide_standstill(
    rounds: Mapping[int, OpenRound], trainers: Collection[str]
) -> list[Waiter]:
    """Trainers that wait for each other in a circle, if nobody can move; else none.

    Args:
        rounds: open rounds to which somebody has come, by part; who has, waits there.
        trainers: those that rounds wait for.
    """
    stuck = dict(rounds)
    while True:
        waiting = {trainer for one in stuck.values() for trainer in one.here}
        still = {
            part: one
            for part, one in stuck.items()
            if len((set(trainers) - set(one.here)) & waiting) > one.spare
        }
        if len(still) == len(stuck):
            break
        stuck = still
    if not stuck or not waiting.issuperset(trainers):
        return []
    return _circle(stuck, set(trainers))


def _circle(stuck: Mapping[int, OpenRound], trainers: set[str]) -> list[Waiter]:
    """From a part to one who is missing there, to the part where that one waits, and on."""
    path: list[Waiter] = []
    part = min(stuck)
    while part not in [waiter.lacks for waiter in path]:
        missing = min(trainers - set(stuck[part].here))
        waits_in = min(p for p, one in stuck.items() if missing in one.here)
        path.append(Waiter(missing, waits_in, part))
        part = waits_in
    return path[[waiter.lacks for waiter in path].index(part) :]


def look_at_standstill(book: Book) -> None:
    """Tell all who wait in open rounds that none of these can close, if it is so."""
    rounds, state = book.rounds, book.durable
    parts = {*rounds.ticked_parts(), *rounds.meetings.parts()}
    if len(parts) < 2:
        return
    trainers, known = participants(state), {}
    for part in parts & state.parts.keys():
        pace = state.parts[part].plan.spec.pace
        here = rounds.waiting(part)
        if here and is_in_step(pace) and not takes_turns(pace):
            known[part] = OpenRound(here, backups_of(pace))
    circle = decide_standstill(known, trainers)
    if not circle:
        return
    specs = {part: state.parts[part].plan.spec for part in known}
    refusal = Refusal(
        kind="mismatch", text=describe_standstill(circle, specs), timeline=state.timeline
    )
    for waiting in (book.ticks, book.meets):
        for key, parked in waiting.items():
            waiting.take(key)
            book.reply(parked.ticket, refusal)


def describe_standstill(circle: list[Waiter], specs: Mapping[int, PartSpec]) -> str:
    """Who steps what first, and what to do about it."""
    named = {part: f"part {part} ({_example(spec)!r})" for part, spec in specs.items()}
    orders = [
        f"{one.trainer} steps {named[one.waits_in]} before {named[one.lacks]}"
        for one in sorted(circle)
    ]
    return (
        f"{', '.join(orders)}: they wait for each other, and no round can close; in every "
        "batch step what was shared in one order on all trainers, and all of it (what is "
        "accumulated leaves by itself where a trainer's tasks end, while others step)"
    )


def _example(spec: PartSpec) -> str:
    return spec.parameters[0].names[0] if spec.parameters else spec.tables[0].name

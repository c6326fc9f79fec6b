"""A round whose values travel between trainers: meet, exchange, and then tick.

::

    meet        all with work have come: the coordinator says who exchanges      (Meet)
    exchange    each asks the others for what they have brought                  (AskValues)
    tick        all has come; the round closes with exactly these                (Tick)

Nothing is sent unasked: a trainer lays out what it brings, and is asked for it. So asking
again changes nothing, and who has died is seen by those who ask. As long as somebody does
not answer, the coordinator is asked if the exchange is still the one: if not, all meet
again, with the values that they hold.

Pure.
"""

from typing import Protocol

import msgspec

from paceline.messages.meeting import Exchange, Meet
from paceline.messages.peers import AskValues, Values
from paceline.messages.shared import Message
from paceline.messages.waits import Wait, wait_for
from paceline.trainer.acts import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    Act,
    Ask,
    Asking,
    Pause,
    what_keeps,
)
from paceline.trainer.holdings import SharedPart
from paceline.trainer.protocol.pushing import Acknowledged


class Collective(Protocol):
    """What is computed of values that travel between trainers."""

    what: str  # of which values it computes what; the same for all members
    address: str  # of this trainer's door

    def begin(self, exchange: Exchange) -> int:
        """Lay out what this trainer brings; forget any exchange before.

        In so many stages the others are asked, each time behind the answers before.
        """

    def questions(self, stage: int) -> dict[str, AskValues]:
        """What to ask whom: ``{trainer: question}``."""

    def asks_servers(self) -> dict[str, Message]:
        """What to ask servers for as of the round; nothing where trainers have it."""

    def came(self, stage: int) -> None:
        """All answers of a stage are here."""


def exchange_values(
    asking: Asking, part: SharedPart, done: Acknowledged, collective: Collective
) -> Act[int]:
    """Meet, and exchange values until they are of those who have met: its name."""
    while True:
        meet = Meet(
            **asking.who(),
            part=part.spec.part,
            round=part.round,
            number=part.number,
            records=done.records,
            what=collective.what,
            address=collective.address,
            has_values=done.is_prepared,
        )
        exchange = yield from asking.ask(meet)
        assert isinstance(exchange, Exchange)
        if (yield from _exchange(asking, meet, exchange, collective)):
            return exchange.name


def _exchange(
    asking: Asking, meet: Meet, exchange: Exchange, collective: Collective
) -> Act[bool]:
    """Ask the others stage by stage; false if the exchange has become void meanwhile."""
    members = {member.trainer: member for member in exchange.members}
    asking.doors = {name: member.address for name, member in members.items()}
    for stage in range(collective.begin(exchange)):
        pause_s, left = FIRST_PAUSE_S, collective.questions(stage)
        while left:
            replies = yield Ask(
                {
                    name: msgspec.structs.replace(
                        question, **asking.who(), to=members[name].incarnation
                    )
                    for name, question in left.items()
                }
            )
            waits = {
                name: what_keeps(name, reply)
                or Wait("exchange", f"{name}: {reply}", (name,))
                for name, reply in replies.items()
                if not isinstance(reply, Values)
            }
            left = {n: q for n, q in left.items() if not isinstance(replies[n], Values)}
            if not left:
                break
            still = yield from asking.ask_once(meet, aside=True)
            if not isinstance(still, Exchange) or still.name != exchange.name:
                return False
            reasons = "; ".join(wait.reason for wait in waits.values())
            yield Pause(pause_s, wait_for("exchange", f"values of {reasons}", waits))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        collective.came(stage)
    return True

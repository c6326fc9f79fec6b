"""How trainers find each other: what they ask of the coordinator to meet.

::

    Meet -> Exchange    parked until all with work have asked: who exchanges values now
    Tick (exchange)     the values of all have come: the round may be closed
    MeetAgain           it cannot: another trainer belongs to it by now, or one no longer

An exchange is named by what it is made of (`exchange_name`): who is in it, each with the
number of the push that it brings. So two that have the same name have the same values, and
nobody needs to remember which were formed.

Addresses of doors are not durable: trainers tell them again and again, and a coordinator
that has just started knows them soon.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import xxhash

from paceline.messages.shared import Message, TrainerMessage


class DoorOpened(TrainerMessage, frozen=True):
    """The asker listens at this address, as this incarnation; told now and then."""

    address: str


class AskPeers(TrainerMessage, frozen=True):
    """Which trainers there are, and where they listen; answered by `Peers`."""


class LivingTrainer(NamedTuple):
    """A living trainer; ``address``: of its door, empty while it has opened none."""

    incarnation: int
    address: str


class Peers(Message, frozen=True):
    """All living trainers by role id, the asker among them."""

    generation: int
    peers: dict[str, LivingTrainer]


class Bringing(NamedTuple):
    """What one trainer brings to an exchange: its push of this number, or nothing."""

    trainer: str
    incarnation: int
    number: int
    has_values: bool


class Meet(TrainerMessage, frozen=True):
    """The asker has come to a round whose values travel between trainers.

    Its push ``number``, without numbers, is prepared at all servers. ``what`` says what is
    computed of which values; all must say the same. ``has_values``: else it only keeps the
    others company, and what they come to is its result too. ``address`` is of its door.
    Answered by `Exchange`, or `Waiting`.
    """

    part: int
    round: int
    number: int
    records: int
    what: str
    address: str
    has_values: bool = True


class Member(NamedTuple):
    """One trainer of an exchange."""

    trainer: str
    incarnation: int
    number: int
    records: int
    address: str
    has_values: bool


class Exchange(Message, frozen=True):
    """Who exchanges values for a round: ``members`` in the order of reduction."""

    name: int
    part: int
    round: int
    members: tuple[Member, ...]


class MeetAgain(Message, frozen=True):
    """The exchange that was ticked is void, and why: `Meet` again with the same values."""

    reason: str


def exchange_name(
    timeline: int, part: int, at_round: int, bringing: Iterable[Bringing]
) -> int:
    """The name of an exchange: 63 bits, never 0."""
    content = (timeline, part, at_round, sorted(bringing))
    digest = xxhash.xxh3_64_intdigest(msgspec.msgpack.encode(content))
    return (digest >> 1) or 1

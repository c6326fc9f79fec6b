"""How trainers find each other: what they ask of the coordinator to meet.

Addresses of doors are not durable: trainers tell them again and again, and a coordinator
that has just started knows them soon.
"""

from typing import NamedTuple

from paceline.messages.shared import Message, TrainerMessage


class DoorOpened(TrainerMessage, frozen=True):
    """The asker listens at this address, as this incarnation; told now and then."""

    address: str


class AskPeers(TrainerMessage, frozen=True):
    """Which trainers there are, and where they listen; answered by `Peers`."""


class Peer(NamedTuple):
    """A living trainer; ``address``: of its door, empty while it has opened none."""

    incarnation: int
    address: str


class Peers(Message, frozen=True):
    """All living trainers by role id, the asker among them."""

    generation: int
    peers: dict[str, Peer]

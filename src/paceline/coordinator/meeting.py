"""How trainers find each other.

Pure.
"""

from paceline.coordinator.book import Book
from paceline.messages import Peer, Peers


def peers_of(book: Book) -> Peers:
    """All living trainers, and where their doors are as far as they have told."""
    peers = {}
    for trainer, incarnation in sorted(book.durable.trainers.items()):
        info = book.members.info(incarnation)
        peers[trainer] = Peer(incarnation, "" if info is None else info.address)
    return Peers(generation=book.durable.generation, peers=peers)

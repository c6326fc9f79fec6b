"""What is known now and need not survive.

::

    book         all of it, with the durable state and this event
    tasks        what may be leased, how far it is
    members      who is alive
    clocks       how many steps each has finished
    rounds       which pushes make one update; quorum: which need not
    meetings     rounds whose values travel between trainers
    parking      questions that cannot be answered yet
    cuts         one checkpoint at a time
    metrics, speeds, training   numbers of the user's, of trainers, of the run
    effects      what a service does once outcomes are journalled

Pure.
"""

from paceline.coordinator.ledgers.book import NOT_TRAINING, PARK_S, Book, PaceWish
from paceline.coordinator.ledgers.cuts import Counted, ManifestOrder, OpenCut, pause_after
from paceline.coordinator.ledgers.meetings import Differing
from paceline.coordinator.ledgers.members import Loss
from paceline.coordinator.ledgers.parking import Asker, Parked, Parking
from paceline.coordinator.ledgers.rounds import participants
from paceline.coordinator.ledgers.tasks import (
    Pick,
    is_epoch_over,
    is_last_epoch,
    num_todo,
    pick_of,
    pick_task,
)

__all__ = [
    "NOT_TRAINING",
    "PARK_S",
    "Asker",
    "Book",
    "Counted",
    "Differing",
    "Loss",
    "ManifestOrder",
    "OpenCut",
    "PaceWish",
    "Parked",
    "Parking",
    "Pick",
    "is_epoch_over",
    "is_last_epoch",
    "num_todo",
    "participants",
    "pause_after",
    "pick_of",
    "pick_task",
]

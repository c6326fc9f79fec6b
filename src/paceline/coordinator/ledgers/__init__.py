"""What is known now and need not survive.

::

    book         all of it, with the durable state and this event
    tasks        what may be leased, how far it is
    members      who is alive, what servers have told, what trainers were seen to do
    clocks       how many steps each has finished
    rounds       which pushes make one update, whose values travel; quorum: which need not
    questions    what is asked and cannot be answered yet
    cuts         one checkpoint at a time; what trainers keep at servers, to be in it
    figures      numbers of the user's, of trainers, of the run
    effects      what a service does once outcomes are journalled

Pure.
"""

from paceline.coordinator.ledgers.book import NOT_TRAINING, Book, PaceWish, Page
from paceline.coordinator.ledgers.cuts import Counted, Cuts, Keeping, ManifestOrder, OpenCut
from paceline.coordinator.ledgers.figures import Speeds
from paceline.coordinator.ledgers.members import (
    Loss,
    MemberInfo,
    Members,
    Reports,
    TrainersSeen,
)
from paceline.coordinator.ledgers.questions import Asker, Parked, Questions
from paceline.coordinator.ledgers.rounds import Rounds
from paceline.coordinator.ledgers.tasks import (
    Pick,
    TaskProgress,
    is_epoch_over,
    is_last_epoch,
    num_todo,
    pick_of,
    pick_task,
)

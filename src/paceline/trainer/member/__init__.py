"""One process as a member of the job.

::

    seat         what a session asks of its trainer, alone or of several processes
    membership   joins, shows that it lives, leaves; the cut behind a loop that was left
                 early; the user's numbers on their way to the coordinator
"""

from paceline.trainer.member.membership import Logbook, Membership, is_failure
from paceline.trainer.member.seat import Alone, MemberSeat, Presence, Seat

__all__ = [
    "Alone",
    "Logbook",
    "MemberSeat",
    "Membership",
    "Presence",
    "Seat",
    "is_failure",
]

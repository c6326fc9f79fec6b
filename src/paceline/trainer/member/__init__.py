"""One process as a member of the job.

::

    seat         what a session asks of its trainer, alone or of several processes
    membership   joins, shows that it lives, leaves
    left_loops   the cut behind a loop that was left early
    logbook      the user's numbers on their way to the coordinator
"""

from paceline.trainer.member.left_loops import is_failure
from paceline.trainer.member.logbook import Logbook
from paceline.trainer.member.membership import Membership
from paceline.trainer.member.seat import Alone, MemberSeat, Presence, Seat

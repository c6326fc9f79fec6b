"""Trainers that somebody else has started, as torchrun does, and that get their role here.

::

    talk     what a guest and its host say to each other
    guest    a guest with a role, watched like a process of one's own
    hall     where guests come to their host, wait for a role, and are watched
    visit    the guest's side
"""

from paceline.launch.guests.hall import GuestHall
from paceline.launch.guests.talk import Arrive, JobOver
from paceline.launch.guests.visit import GuestVisit

"""Who may change which rows, and pushes that are held under locks.

::

    locks         of one part
    part_locks    of all parts, and what of a request they have to do with
    held_pushes   with the locks that they are written under
"""

from paceline.server.locks.held_pushes import HeldPushes, Steps
from paceline.server.locks.locks import Granted, LockEffect, Refused, Waits, Who
from paceline.server.locks.part_locks import LockKey

__all__ = [
    "Granted",
    "HeldPushes",
    "LockEffect",
    "LockKey",
    "Refused",
    "Steps",
    "Waits",
    "Who",
]

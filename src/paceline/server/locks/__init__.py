"""Who may change which rows, and pushes that are held under locks.

::

    locks         of one part
    part_locks    of all parts, and what of a request they have to do with
    held_pushes   with the locks that they are written under
"""

from paceline.server.locks.held_pushes import HeldPushes, Steps
from paceline.server.locks.locks import (
    LockAsker,
    LockEffect,
    LockGranted,
    LockRefused,
    LockWaits,
)
from paceline.server.locks.part_locks import LockKey

__all__ = [
    "HeldPushes",
    "LockAsker",
    "LockEffect",
    "LockGranted",
    "LockKey",
    "LockRefused",
    "LockWaits",
    "Steps",
]

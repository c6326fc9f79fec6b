"""Who may change which rows, and pushes that are held under locks.

::

    locks         of one part
    part_locks    of all parts, and held pushes that are written under them
"""

from paceline.server.locks.locks import (
    LockAsker,
    LockEffect,
    LockGranted,
    LockRefused,
    LockWaits,
)
from paceline.server.locks.part_locks import HeldPushes, LockKey, Steps

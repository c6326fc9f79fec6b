"""Carries a trainer's questions over connections, and tells what it waits for.

::

    driver         runs acts: asks, waits, asks again
    connections    to coordinator and servers: made when needed, again after a loss
    waits          whom for and since when, told after ten seconds
    lock_renewal   signs of life for locks
    stopwatch      how long batches take without waiting for anybody; what seconds go into
"""

from paceline.trainer.client.connections import Courier
from paceline.trainer.client.driver import Attach, Driver, Payload, Sent, bare
from paceline.trainer.client.lock_renewal import HeldLock
from paceline.trainer.client.waits import LOOK_EVERY_S, Waits

"""What one trainer holds of the job: leases, and parts with their open windows.

::

    leases         tasks that it works on, and how far each is
    leases_ahead   leases behind those whose batches await their step
    parts          shared parts: the open window, the numbers
    rules          what their pace says, once

Pure, without torch.
"""

from paceline.trainer.holdings.leases import (
    Leases,
    LeaseWork,
    drop_unstepped,
    give_up,
    hand_back,
)
from paceline.trainer.holdings.leases_ahead import LeasesAhead, Nothing
from paceline.trainer.holdings.parts import SharedPart, Writing

__all__ = [
    "LeaseWork",
    "Leases",
    "LeasesAhead",
    "Nothing",
    "SharedPart",
    "Writing",
    "drop_unstepped",
    "give_up",
    "hand_back",
]

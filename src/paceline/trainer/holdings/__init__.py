"""What one trainer holds of the job: leases, and parts with their open windows.

::

    leases   tasks that it works on, and how far each is
    parts    shared parts: the open window, the numbers

Pure, without torch.
"""

from paceline.trainer.holdings.leases import (
    Leases,
    LeaseWork,
    Nothing,
    drop_unstepped,
    find_ahead,
    give_up,
    hand_back,
)
from paceline.trainer.holdings.parts import SharedPart, Writing

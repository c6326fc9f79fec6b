"""A trainer's way through the job: all of its decisions.

::

    protocol       the spine: join, lease, step, leave, rejoin
    joining        becoming a member, and finding a part its place
    stepping       a step's push, from the open window to the values after it
    pushing        a window's way to all servers, and the values' way back
    pacing         how far a trainer may be ahead, which values still serve
    fragments      rounds of fragments that a trainer does not stop for
    exchanging     rounds whose values travel between trainers
    tables         locks, rotations, steps over several tables
    ticking        what the coordinator is told of acknowledged windows
    tracking       the user's tracked objects, and the state that servers keep
    script_values  values that the script has changed itself
    evaluating     stages that do not train

Each is a generator of questions (`paceline.trainer.acts`). Pure, without torch.
"""

from paceline.trainer.protocol.joining import LOST_BEFORE_BREAK, check_order, unshare
from paceline.trainer.protocol.protocol import TrainerProtocol
from paceline.trainer.protocol.pushing import Coming
from paceline.trainer.protocol.script_values import Changed, set_between, set_within
from paceline.trainer.protocol.tables import (
    StandingThen,
    let_go,
    push_alone_together,
    take_locks,
)
from paceline.trainer.protocol.tracking import Tracking

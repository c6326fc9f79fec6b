"""What the script's model and optimizer are, and what of them may change.

::

    own_optimizer    the user's optimizer object, once it is shared, and its groups
    schedules        rates that follow what the job has trained
    watched          what a script does to parameters and model between the steps
    beside           what nothing trains: frozen parameters, persistent buffers
"""

from paceline.trainer.model.beside import Buffers, Frozen
from paceline.trainer.model.own_optimizer import (
    KeptGroups,
    StateElsewhere,
    check_state,
    has_step_hooks,
    is_kept,
    keep_own,
    load_own_state,
    own_state,
    refuse_copy,
    release,
    step_own,
    why_not_kept,
)
from paceline.trainer.model.schedules import Factor, Schedules, why_not_tracked
from paceline.trainer.model.watched import (
    WatchedModel,
    WatchedValues,
    changed_by_script,
    check_initialized,
    let_rest,
)

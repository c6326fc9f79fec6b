"""What the script's model and optimizer are, and what of them may change.

::

    own_optimizer    the user's optimizer object, once it is shared
    kept_groups      its parameter groups as they were at first
    hyper_values     what they say, as plain values
    schedules        rates that follow what the job has trained
    watched_values   what a script does to parameters between the steps
    watched_models   which parameters a model has, of which dtype
    model_buffers    its persistent buffers, as they are now
    frozen           what nothing trains, told by content
"""

from paceline.trainer.model.frozen import Frozen
from paceline.trainer.model.hyper_values import hyper_of
from paceline.trainer.model.kept_groups import KeptGroups
from paceline.trainer.model.model_buffers import Buffers
from paceline.trainer.model.own_optimizer import (
    StateElsewhere,
    check_state,
    keep_own,
    load_own_state,
    own_state,
    refuse_copy,
    release,
    step_own,
    why_not_kept,
)
from paceline.trainer.model.schedules import Factor, Schedules, why_not_tracked
from paceline.trainer.model.watched_models import WatchedModel, check_initialized
from paceline.trainer.model.watched_values import WatchedValues

__all__ = [
    "Buffers",
    "Factor",
    "Frozen",
    "KeptGroups",
    "Schedules",
    "StateElsewhere",
    "WatchedModel",
    "WatchedValues",
    "check_initialized",
    "check_state",
    "hyper_of",
    "keep_own",
    "load_own_state",
    "own_state",
    "refuse_copy",
    "release",
    "step_own",
    "why_not_kept",
    "why_not_tracked",
]

"""Runs the protocol together with the numbers of the parts that it moves.

::

    engine             acts of the protocol, with gradients, values, rows
    open_calls         one call at a time, and none after the end
    tracked_objects    the user's objects beside model and optimizer; their state
    unstepped          loops that never take a step
    unsharing          a model becomes the script's own again
"""

from paceline.trainer.engine.engine import Scaled, StepWarning, TrainerEngine
from paceline.trainer.engine.open_calls import Calls
from paceline.trainer.engine.tracked_objects import Tracker
from paceline.trainer.engine.unsharing import (
    SharedModel,
    forget_model,
    unshare_part,
    why_not_unshared,
)
from paceline.trainer.engine.unstepped import Steps

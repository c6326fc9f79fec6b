"""States of tracked objects on their way into them."""

from paceline.trainer.engine.tracked_objects import TrackedCarrying, Tracker
from paceline.trainer.protocol.tracking import Tracking


def test_a_state_of_a_timeline_that_was_left_at_once_is_not_loaded() -> None:
    state = Tracking({})
    carrying = TrackedCarrying(Tracker(), state)
    state.number, state.loads = 7, 1  # it has come ...
    state.forget()  # ... and the trainer has joined again since
    carrying.load()
    assert not state.is_known

"""Each event to its decision, and what follows from how things stand.

::

    trainer_questions   one function for each question of a trainer
    reports             what servers, the launcher and observers say
    consequences        looked at after every event
    waits               what each parked question waits for

Pure.
"""

from paceline.coordinator.dispatch.consequences import end_waits, look_again
from paceline.coordinator.dispatch.reports import (
    launcher_reported,
    scale_asked,
    server_reported,
    status_asked,
)
from paceline.coordinator.dispatch.trainer_questions import trainer_asked

__all__ = [
    "end_waits",
    "launcher_reported",
    "look_again",
    "scale_asked",
    "server_reported",
    "status_asked",
    "trainer_asked",
]

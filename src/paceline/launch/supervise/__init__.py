"""Keeps the processes of a job running until it has ended.

::

    supervision    what to start, what to kill, when to give up     (pure)
    hearing        when the coordinator was last heard              (pure)
    run_events     what happens to processes, what may be decided   (pure)
    failure, failures   how a script failed, whether it would again
    launcher       carries decisions out
    link           to the coordinator

The names load when they are asked for: whoever needs one is not given the others.
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.launch.supervise.failure import failure_of, write_failure
    from paceline.launch.supervise.launcher import Ended, Launcher
    from paceline.launch.supervise.link import CoordinatorLink
    from paceline.launch.supervise.supervision import (
        LEAVE_S,
        NOT_SAVED,
        RESTARTS_IN_A_ROW,
        SAVE_S,
        Supervision,
    )

__all__ = [
    "LEAVE_S",
    "NOT_SAVED",
    "RESTARTS_IN_A_ROW",
    "SAVE_S",
    "CoordinatorLink",
    "Ended",
    "Launcher",
    "Supervision",
    "failure_of",
    "write_failure",
]

_LAZY = {  # {name: the module that defines it}
    "CoordinatorLink": "paceline.launch.supervise.link",
    "Ended": "paceline.launch.supervise.launcher",
    "LEAVE_S": "paceline.launch.supervise.supervision",
    "Launcher": "paceline.launch.supervise.launcher",
    "NOT_SAVED": "paceline.launch.supervise.supervision",
    "RESTARTS_IN_A_ROW": "paceline.launch.supervise.supervision",
    "SAVE_S": "paceline.launch.supervise.supervision",
    "Supervision": "paceline.launch.supervise.supervision",
    "failure_of": "paceline.launch.supervise.failure",
    "write_failure": "paceline.launch.supervise.failure",
}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)

"""Keeps the processes of a job running until it has ended.

::

    supervision    what to start, what to kill, when to give up     (pure)
    hearing        when the coordinator was last heard              (pure)
    run_events     what happens to processes, what may be decided   (pure)
    failure        how a script failed, whether it would again
    launcher       carries decisions out, and asks the coordinator
"""

from paceline.launch.supervise.failure import failure_of, write_failure
from paceline.launch.supervise.launcher import CoordinatorLink, Ended, Launcher
from paceline.launch.supervise.run_events import NoRoom, Start
from paceline.launch.supervise.supervision import (
    LEAVE_S,
    NOT_SAVED,
    RESTARTS_IN_A_ROW,
    SAVE_S,
    Supervision,
)

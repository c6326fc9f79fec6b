"""What becomes of each thing that comes, subject by subject, and what follows from it.

::

    trainer_questions   one function for each question of a trainer
    reports             what servers, the launcher and observers say
    consequences        looked at after every event; waits: what parked questions wait for
    pace_changes        at a moment when nothing is on its way; `auto`
    checkpoints         begun, committed, given up, unreadable; runs before this one
    membership          who is heard, what a death means
    rounds              meetings, atomic steps, rounds that wait for each other
    ticks               tasks go on or are done, leases are given back
    results             what evaluations came to; who may replace values
    status              how the job stands
    leases              grants, what holds them up, tasks that are closed
    tracked             the user's own objects, and averages of buffers

Pure.
"""

from paceline.coordinator.decisions.checkpoints import (
    Stored,
    begin_run,
    break_taken_over,
    commit_cut,
    cut_asked,
    return_further,
)
from paceline.coordinator.decisions.consequences import end_waits, look_again
from paceline.coordinator.decisions.membership import look_for_losses
from paceline.coordinator.decisions.pace_changes import govern, pace_asked
from paceline.coordinator.decisions.reports import (
    interrupt_asked,
    launcher_reported,
    scale_asked,
    server_reported,
    status_asked,
)
from paceline.coordinator.decisions.status import job_status
from paceline.coordinator.decisions.trainer_questions import trainer_asked

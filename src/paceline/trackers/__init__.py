"""Trackers: what goes out of a job to tools that keep runs.

::

    beside                     a process for each tool beside a run
    following                  a job's events go into a tool, to the job's end
    points                     what events say to a tracker                     (pure)
    mark                       how far they are in the tool, in the job folder
    target                     which tool, and where in it
    tracker                    the shape that all tools have
    tensorboard_files, weights_and_biases, mlflow_store     a file for each

One process writes, and it is none of the job's: whoever dies there, a tool has one run of
the job, and a tool that is slow or gone holds nobody up.
"""

from paceline.trackers.beside import trackers_beside, wait_tracked
from paceline.trackers.target import TO_HELP, Target, parse_target

__all__ = ["TO_HELP", "Target", "parse_target", "trackers_beside", "wait_tracked"]

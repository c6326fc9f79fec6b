"""The page of all jobs of a folder: which there are, how each stands, who is looked at.

::

    folders    which folders hold a job, and what their files tell
    jobs       asks those that run, and has an observer of each whose page is open
"""

from paceline.dashboard.listing.folders import holds_jobs
from paceline.dashboard.listing.jobs import Jobs

__all__ = ["Jobs", "holds_jobs"]

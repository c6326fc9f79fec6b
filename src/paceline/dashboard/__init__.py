"""The window: a page that answers who waits for whom.

::

    web        the server on this machine's loopback, and a report as one file
    door       who may look, and ask                                         (pure)
    asks       what a page has asked of the job
    beside     all of it as a child of a launcher
    listing    all jobs of a folder, and which of them are looked at
    observer   asks the coordinator once a second, reads the events
    picture    what is shown                                                 (pure)
    metrics    what Prometheus reads                                         (pure)
    lanes      who was there, and what happened                              (pure)
    loads      what time went into; which roles are where                   (pure)
    foreseen   a forecast of the job beside it, and of other paces          (pure)
    lacking    why a panel has nothing to show                               (pure)
    series     numbers over time, as many as a screen has dots               (pure)
    page/      what a browser gets: HTML, style, script, and uPlot (MIT)

It is a process of its own: a page that is open costs the coordinator one question a second.
"""

from paceline.dashboard.beside import dashboard_beside
from paceline.dashboard.door import parse_proxy
from paceline.dashboard.listing import Jobs, holds_jobs
from paceline.dashboard.observer import Observer
from paceline.dashboard.web import open_dashboard, report_of, serve

__all__ = [
    "Jobs",
    "Observer",
    "dashboard_beside",
    "holds_jobs",
    "open_dashboard",
    "parse_proxy",
    "report_of",
    "serve",
]

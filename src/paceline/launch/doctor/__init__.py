"""``paceline doctor``: what would go wrong between machines, before a job is paid for.

::

    examination   who has come, what each is to find out next      (pure)
    findings      what all that says, and what to do about it      (pure)
    examiner      where machines come to, until all is known

A machine takes part as in a run: by ``paceline host``, and does there what it is ordered to
(`paceline.launch.hosts`).
"""

from paceline.launch.doctor.examination import Examinee
from paceline.launch.doctor.examiner import ExamResult, ExamWish, wait_examination

__all__ = [
    "ExamResult",
    "ExamWish",
    "Examinee",
    "wait_examination",
]

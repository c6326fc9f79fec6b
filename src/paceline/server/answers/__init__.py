"""Requests of trainers, one file for each kind.

::

    answers            at once, or by actions that lead to the answer
    parked             requests that wait for a round
    rows_behind_push   rows asked for in the request of a push
    early_push         gradients ahead of their push
    lock_requests      locks and held pushes
    values             what a part begins with, what a script sets
    kept_state         what servers only keep
    tracked_state      states of tracked objects
"""

from paceline.server.answers.answers import carry_out, give, invalid
from paceline.server.answers.early_push import stage_early
from paceline.server.answers.kept_state import answer_kept
from paceline.server.answers.lock_requests import Locking
from paceline.server.answers.parked import PARK_S, ParkedReads, Read
from paceline.server.answers.rows_behind_push import with_rows
from paceline.server.answers.values import decide_values

__all__ = [
    "PARK_S",
    "Locking",
    "ParkedReads",
    "Read",
    "answer_kept",
    "carry_out",
    "decide_values",
    "give",
    "invalid",
    "stage_early",
    "with_rows",
]

"""Requests of trainers, one file for each kind.

::

    pushes             what trainers have computed; gradients ahead of their push
    reads              dense values, and rows
    answers            at once, by actions that lead to the answer, or later; rows that are
                       asked for in the request of a push
    lock_requests      locks and held pushes
    values             what a part begins with, what a script sets
    kept_state         what servers only keep, states of tracked objects among it
"""

from paceline.server.answers.answers import give
from paceline.server.answers.kept_state import answer_kept
from paceline.server.answers.lock_requests import Locking
from paceline.server.answers.pushes import Pushes, answer_early
from paceline.server.answers.reads import Reads
from paceline.server.answers.values import answer_values

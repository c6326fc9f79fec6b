"""What `Session.table` returns, and its four models of computation.

::

    table               pull, push, lock, rotate, allreduce
    arguments           what a user says of a table, and hands to it
    locks               rows that one trainer has for itself
    rotation            a loop over cells: blocks in, changed blocks out
    rotation_plan       a rotation as a stage
    rotation_prefetch   the next cell, looked for meanwhile
    rotation_peers      blocks from trainer to trainer
"""

from paceline.trainer.tables.arguments import describe_table
from paceline.trainer.tables.table import Table

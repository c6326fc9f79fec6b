"""What `Session.table` returns, and its four models of computation.

::

    table, arguments    pull, push, lock, rotate, allreduce
    description         a table as what is shared of it
    writes              how what is pushed leaves: with its batch, or alone
    locks               rows that one trainer has for itself
    rotation, cell      a loop over cells: blocks in, changed blocks out
    rotation_plan       a rotation as a stage
    rotation_prefetch   the next cell, looked for meanwhile
    rotation_peers      blocks from trainer to trainer
"""

from paceline.trainer.tables.description import describe_table, open_table
from paceline.trainer.tables.table import Table

__all__ = ["Table", "describe_table", "open_table"]

"""Removes the bookkeeping from this process for good, on import: see `bookkeeping_off`.

Imported by a fork server, it does so for every process that is forked from it.
"""

from benchmarks.ctr.bookkeeping_off import removed

REMOVED = removed()
REMOVED.__enter__()

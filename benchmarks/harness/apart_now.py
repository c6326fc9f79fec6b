"""Servers of this process lend nothing any more, on import: see `apart`.

Imported by a fork server, it is so for every process that is forked from it.
"""

from benchmarks.harness.apart import apart

APART = apart()
APART.__enter__()

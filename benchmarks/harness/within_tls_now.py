"""Links of this process are within TLS from now on, on import: see `within_tls`.

Imported by a fork server, it is so for every process that is forked from it.
"""

from benchmarks.harness.apart import within_tls

WITHIN_TLS = within_tls()
WITHIN_TLS.__enter__()

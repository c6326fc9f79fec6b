"""Topics on tables: beside peers, and models of computation beside each other.

::

    compare  all of them (`peers`)
    job      a trainer of the example that is measured, and the kernel alone
"""

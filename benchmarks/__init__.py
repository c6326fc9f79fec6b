"""Ratios against something strong, measured in the same run: see `make bench`.

::

    record      what every benchmark writes down: machine, commit, versions, spread
    processes   processes of a benchmark, forked from one that has torch imported
    ctr         paceline against the best plain PyTorch loop (`ctr_loops`, `ctr_phases`)
    recovery    how long a job stands still when something dies (`recovery_job`)
"""

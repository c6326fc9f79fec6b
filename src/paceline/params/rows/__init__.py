"""Sparse parameters: tables of rows by int64 id, made when they are first touched.

::

    slots        ids -> unique ids -> slots          the trainer's side of a push
    id_map       id -> row index                     open addressing
    initial      a new row's values                  a function of (seed, table, id)
    optimizers   what a row keeps besides its values, and one step
    table        one table in one slot
    kernels      the loops of all of them, compiled
    kernel_cache where they are kept when compiled
    reference    the same in plain NumPy: the tests' oracle

Only this room imports numba.
"""

"""Matrix factorisation on tables.

::

    compare  against C++ and Cython, to the same error (`peers`, `alone`)
    models   each model of computation beside the others
    job      a trainer of the example that is measured
"""

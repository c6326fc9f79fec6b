"""k-means on tables: every model beside the others, and beside scikit-learn's Lloyd.

::

    compare  all of them (`floor`, `with_scikit`)
    job      a trainer of the example that is measured
"""

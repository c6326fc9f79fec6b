"""Logistic regression on tables until a loss, beside scikit-learn.

::

    compare  all of them (`floor`, `with_scikit`)
    job      the example as a job that notes when
"""

"""Logistic regression on tables, beside scikit-learn.

::

    compare  until a loss (`floor`, `job`, `with_scikit`)
    flights  weights of hashed flights beside SGDClassifier (`flights_job`, `flights_sgd`)
"""

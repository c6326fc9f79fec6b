"""What tables do for algorithms that change the model themselves, beside peers.

::

    factorisation, topics      stochastic algorithms, in each model of computation
    clusters, classification   sums over all records; `beside` is what they share
    curves                     drawn by epochs and by seconds
"""

"""What tables do for algorithms that change the model themselves, beside peers.

::

    factorisation, topics      stochastic algorithms, in each model of computation
    clusters, classification   sums over all records; `beside` is what they share
    stragglers                 one slow trainer of four, in each model of computation
    allreduce                  values reduced over all trainers (`allreduce_loops`)
"""

"""What each pace costs and gives: real gradients, in the order of real decisions.

::

    schedule  who computes what on which values, and when it counts: paceline's own
              decisions, in virtual time
    problem   a small network that reads digits, for many learning rates at once
    replay    gradients and updates of a schedule
    tuning    seconds, updates and batches to a loss, at the best rate of one grid
    tables    the experiments
    drawing   their pictures

So a table takes minutes where real trainers would take days, and other work on the machine
changes nothing: the same seed makes the same numbers.
"""

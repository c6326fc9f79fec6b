"""Where examples come from: the first room on a record's way.

::

    split   an epoch's positions -> tasks -> batches        (pure)
    order   positions -> records, shuffled by (seed, epoch) (pure)
    source  records -> a batch of the user's data
    sets    public data sets by name, fetched and checked

`split` and `order` do not import torch; the coordinator cuts tasks without it.
"""

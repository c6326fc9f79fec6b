"""The click-through job: against plain loops and other parameter servers, and its variants.

::

    compare      against the best plain PyTorch loop (`loops`)
    peers        against TensorFlow's and Paddle's parameter servers (`handed`, `with_*`)
    bookkeeping  what journal and exactly-once cost (`bookkeeping_off`)
    codecs       what a codec costs in AUC and saves in bytes: the flights of `make demo`
    readers      records from files, against pandas and scikit-learn (`read_epoch`)
"""

"""For our tests and the users': faults in real processes, and what they must not change.

::

    chaos    a counting job under kills, frozen trainers and armed failpoints
    parsers  everything that reads bytes from strangers, for fuzzers
"""

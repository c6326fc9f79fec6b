"""Room 3: the user's side.

::

    protocol   pure: leases, windows, pushes, ticks, pulls, return and rejoin
    session    what the user holds; drives the protocol over connections
    optimizer  the shared optimizer: cuts gradients into blocks and rows
    embedding  `Embedding`: rows without a limit
    client     carries the protocol's questions to coordinator and servers
"""

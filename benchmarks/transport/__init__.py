"""A pull and a push between two processes: the whole path, the bare transport, and peers.

::

    compare  all of them; `timing` is the clock that they share
    job      the Pull and Push of a job's trainer
    floors   a copy within one process, and a bare Unix socket
    with_*   paceline's own transport, torch RPC, pyzmq, gRPC, Ray

Between machines: `far`, a stream of large ones; `round_trips`, what a training step waits
for where links have a delay.
"""

"""Ratios against something strong, measured in the same run: see `make bench`.

Rooms, from the bottom; each ``__init__`` draws its own::

    harness    what all are made with: how one is declared and run, goals, figures, records
    transport  a pull and a push between two processes
    ctr        the click-through job: plain loops, other parameter servers, codecs
    dense      dense models: DDP, a slow link, what a step costs
    scale      how many a coordinator and a server can have, what a step sends, forecasts
    recovery   how long a job stands still when something dies
    tables     algorithms on tables, beside peers
    pace       what paces are worth

``python -m benchmarks NAME`` runs one, and `__main__` has their names; ``pins``
holds the exact versions of the peers.
"""

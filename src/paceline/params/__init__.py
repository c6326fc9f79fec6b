"""What a parameter is and how it changes: numbers only, no thread, no socket, no clock.

::

    blocks               how a part is cut, and where its slots lie (no torch, no numpy)
    dense                an optimize block: a slice of a parameter with its optimizer
    rows/                a table: id -> row, with numba kernels
    shard                all slots of one server

Import the modules by name; this one imports nothing, so that the coordinator can cut and
place without paying for torch.
"""

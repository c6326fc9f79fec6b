"""The command line: one file per command.

::

    main      the commands behind one name, and errors as exit codes
    seconds   durations as they are typed
    streams   standard output and error, whatever has become of them
    run       paceline run script.py: a job on this machine
    status    paceline status DIR: how a job stands, or how it ended
    draw      paceline draw DIR: a run as a picture

Nothing here imports torch.
"""

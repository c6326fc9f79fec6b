"""The command line: a file for a command, or for two that are alike.

::

    main      the commands behind one name, and errors as exit codes
    options   what options of several commands say
    streams   standard output and error, whatever has become of them
    called    commands as Python calls them
    run       paceline run script.py: a job on this machine
    scale     paceline scale N, pace PACE: a running job is changed
    elsewhere commands about other machines
    dashboard paceline dashboard, report: a job in the browser
    status    paceline status DIR: how a job stands, or how it ended
    draw      paceline draw DIR, trace: a run as a picture, as a trace

Nothing here imports torch.
"""

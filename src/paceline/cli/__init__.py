"""The command line: a file for a command, or for two that are alike.

::

    main      the commands behind one name, and errors as exit codes
    options   what options of several commands say
    streams   standard output and error, whatever has become of them
    run       paceline run script.py: a job on this machine
    host      paceline host, role: this machine in a job that another one leads
    scale     paceline scale N, pace PACE: a running job is changed
    doctor    paceline doctor: what would go wrong between machines
    status    paceline status DIR: how a job stands, or how it ended
    draw      paceline draw DIR: a run as a picture

Nothing here imports torch.
"""

"""How much one role bears.

::

    coordinator_scale  how many a coordinator can lead (`coordinator_process`, `_queue`)
    server_scale       how many trainers a server can have (`server_process`)
    lines, process     many connections in one thread; a process seen from outside
    crowd              a thousand trainers that compute nothing, for a coordinator
    scaling            what a step sends, with one to four servers and trainers
    start              what is before a first batch, and held (`start_script`)
    simulator          how long `paceline simulate` takes
"""

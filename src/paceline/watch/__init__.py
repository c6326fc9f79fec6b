"""The window: how a run looks from outside.

::

    summary    how a run ended: the one object at its end, and the exit code (pure)
    table      the summary for people
    row        a job as one row of a list (pure)
    pulse      a status as one line, how fast records go, who holds them up (pure)
    progress   the progress bar, or a plain line every few seconds
    tail       the lines of an event log as they come
    history    ``events.jsonl`` as curves and marks (pure)
    trace      ``events.jsonl`` as a trace for Perfetto (pure)
    draw       the curves and marks as a picture
"""

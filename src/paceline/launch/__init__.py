"""Room 4, the front door: how a job comes to life and how it ends.

::

    connect      joins the job that the environment names, or starts an embedded one
    environment  the PACELINE_* variables of a process of a job
    folder       what lies where in a job folder
    embedded     coordinator, servers and trainers as threads of one process
    own_job      what a user sees of it: progress, status, an end in good order
    parting      how a script comes to its end that is asked to (pure)
    local        coordinator, servers and trainers as processes of this machine
    launcher     keeps processes running and carries exits to the coordinator
    supervision  decides: what to start, what to kill, when to give up (pure)
    process      one supervised process
    link         the launcher's connection to the coordinator
    parent       dying with one's parent
    role, child  what a coordinator or server process runs; what a trainer process runs

Nothing here imports torch, but what a server, a trainer or an embedded job needs.
"""

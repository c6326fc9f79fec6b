"""The front door: how a job comes to life and how it ends.

Its inside, from the top::

    connect      joins the job that the environment names, or starts an embedded one
    torchrun/    what a process of torchrun's joins, and what its machine has beside it
    own_job      what a user sees of that: progress, status, an end in good order
    embedded     coordinator, servers and trainers as threads of one process
    echo         what roles write, said while a run goes on
    carried      a function of the user's, taken to trainers and called there
    parting      how a script is brought to its end (pure)
    local        coordinator, servers and trainers as processes of this machine
    doctor/      what would go wrong between machines, before a job
    hosts/       other machines in a job
    guests/      trainers that somebody else has started
    supervise/   decides and carries out: what to start, to kill, when to give up
    processes/   started, named, ended
    job/         a job as files, names and addresses

Nothing here imports torch, but what a server, a trainer or an embedded job needs.
"""

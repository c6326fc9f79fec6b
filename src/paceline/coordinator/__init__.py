"""Room 2: who does what next, who is alive.

Everything here but ``service`` is pure: `CoordinatorState.apply(event, now)` returns
outcomes (what the journal keeps) and effects (what the service carries out)::

    outcomes   what can happen to the durable state, one struct per happening
    durable    the state that survives, and `restore`, the only place that changes it
    queue      the tasks of an epoch
    tasks      what may be leased, when an epoch is over
    runs       where a job goes on when everybody was gone
    parking    questions that wait, and which of them an event may concern
    members    who is alive, judged by the receiver's clock
    rounds     which prepared pushes make one update
    cuts       one checkpoint at a time, the queue copied before the slots
    recovery   marks -> where a task goes on
    orders     what a server does next, from its report
    requests   what trainers ask
    state      apply: all of it behind one door
    service    carries: sockets, journal, store, clock
"""

"""Room 2: who does what next, who is alive.

`CoordinatorState.apply(event, now)` returns outcomes (what the journal keeps) and effects
(what the service carries out). Its inside, from the top::

    service          the hands: sockets, journal, store and clock around the state
    inbox            what has come and nobody has seen to, or answered, yet
    storage          what must survive: on its way to a disk that may be full (full_disk),
                     what a start finds, how a cut is committed; stored_values beside it
    state            apply: all decisions behind one door
    decisions/       each event to its decision, subject by subject, and what follows
    ledgers/         what is known now
    durable/         what the journal keeps

From `state` down all is pure.
"""

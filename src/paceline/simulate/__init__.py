"""The wind tunnel: the real decisions of all roles in one seeded, virtual-time process.

Messages are lost, repeated, delayed and overtake each other; every role is killed and
restarted between any two of its acts; trainers are frozen until they are thought dead
and wake again. Any run is replayed from its seed alone.

::

    world        virtual time, processes that die, a network that does not care
    faults       what may go wrong, and how often; heals after a while
    coordinator  `CoordinatorState` with a journal that survives it
    server       `ServerState` over slots that count what they applied
    trainer      `TrainerProtocol` with a user who computes nothing
    launcher     exit reports, restarts, replacements
    checks       what must hold: exactly once, round atomicity, queue conservation
    job          one whole run
"""

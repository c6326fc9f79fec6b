"""What a job would do on machines that one does not have yet: how fast, and what waits.

The decisions are the product's own: `CoordinatorState`, `ServerState` and `TrainerProtocol`
run as they run in a job, in virtual time, message by message. What takes time in a job
(computing, networks, applying) takes it here by a model, drawn from a seed.

::

    models       how long a batch computes, who pauses, what a network does, who dies
    fitting      the same from the events of a real run
    plan         what is asked: so many trainers, servers, this pace, these models
    agenda       virtual time; whatever serves one at a time: a server, its network, the
                 coordinator
    driver       lets a trainer act in it; shared with the wind tunnel (`tests/simulate`)
    coordinator  `CoordinatorState` behind a line
    server       `ServerState` behind lines; one stands for all, which have equal shares
    trainer      `TrainerProtocol` with a user who computes for as long as the model says
    launcher     starts trainers, lets processes die, and brings them back
    gauge        what is measured on the way
    job          one forecast: `forecast(plan)`
    advice       the same with other numbers of servers and trainers: what pays
"""

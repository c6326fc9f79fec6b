"""Room 5: the door before a shard.

Pure, all but ``service``: `ServerState` decides what happens to a push, a pull, an order.

::

    windows   marks: which batches each slot has applied; duplicates and gaps
    state     one decision per message: fencing, timeline, numbers, windows, rounds
    contents  a request's raw buffers, checked and read as tensors
    rounds    one gradient per block and row from all contributors of a round
    merging   one gradient per block and row from pushes that wait for a slot
    service   carries: takes trainers' requests, parks what must wait
        service_standing   decisions and numbers under one lock
        service_slots      the shard, with a queue in front of each slot
        service_queue      turns at a slot: one after the other, or beside each other
        service_turns      what is done there beside others, or together
        service_hogwild    several steps on the same numbers at once
        service_control    reports to the coordinator, carries out its orders
        service_cuts       a server's file of a cut
"""

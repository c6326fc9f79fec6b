"""Room 5: the door before a shard.

Its inside, from the top::

service        takes trainers' requests, each to what answers it
control        reports to the coordinator, carries out its orders
answers/       one file for each kind of request
standing       decisions and numbers under one lock
snapshots      a server's share of a cut, moments that are held
held_pushes    all locks, and pushes that are written under them
locks          who may change which rows of a part: pure
slots/         the numbers, and queues before the slots
decisions/     what happens to a push, a pull, an order: pure
requests/      bytes of a request as checked tensors: pure
"""

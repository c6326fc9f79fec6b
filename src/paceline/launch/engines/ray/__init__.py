"""Hosts that Ray places: an actor for each, which has its agent as a child.

::

    wish       how many hosts of which kind, and what each asks of the cluster
    folder     which files the machines are given, and that they are few
    agent      the actor: it starts ``paceline host``, and says how that has ended
    tether     what binds an agent to its actor's process
    door       a job by its name on the cluster
    cluster    all that Ray is asked for
    standing   what becomes of a host: pure
    hosts      the actors of a job
    engine     from the command line to a cluster

The launcher is a driver of Ray: with it, or its connection, all actors end.
"""

from paceline.launch.engines.ray.engine import connect_ray, ray_door
from paceline.launch.engines.ray.wish import RayWish

"""How long a job stands still when one of its processes is killed.

::

    compare      all figures
    kills        kills a role of a running job (`job`) again and again
    coordinator  a coordinator with a long journal
    times        recovery times, from moments
"""

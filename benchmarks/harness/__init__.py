"""What all benchmarks are made with; it knows none of them.

::

    bench         how a benchmark is declared, and all that is done around it
    record        what every benchmark writes down: machine, commit, versions, spread
    goals         what is wanted: the one table of it
    figures       what was measured of whom, ratios and goals: in every record, for the page
    page          draws what was found last into docs/benchmarks-results.md
    environments  the peers, each in a virtual environment of its own
    processes     processes of a benchmark: forked, a job's, or a peer's
    watching      what goes over a trainer's connections
    stopwatch     times a loop's steps, and what the processes of its job spend
    apart         a job on one host as if it were on several; codecs
"""

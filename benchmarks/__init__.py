"""Ratios against something strong, measured in the same run: see `make bench`.

::

    __main__      all of them, one after the other
    record        what every benchmark writes down: machine, commit, versions, spread
    figures       what was measured of whom, ratios and goals: in every record, for the page
    goals         what is wanted: the one table of it
    environments  the peers, each in a virtual environment of its own
    processes     processes of a benchmark: forked, a job's, or a peer's
    ctr           paceline against the best plain PyTorch loop (`ctr_loops`, `ctr_phases`)
    ctr_peers     the same against TensorFlow's and Paddle's parameter servers (`ctr_*`)
    transport     a pull and a push against torch RPC, pyzmq, gRPC, Ray (`transport_*`)
    dense         a synchronous step against DDP over Gloo (`dense_loops`)
    step_cost     a step with nothing to compute, and two checkouts (`step_cost_loops`)
    codecs        what a codec costs in AUC and saves in bytes
    apart         a job on one host as if it were on several
    bookkeeping   what journal and exactly-once cost (`bookkeeping_off`)
    scaling       what a step sends, with one to four servers and trainers
    link          a step over a slow link between two network namespaces (`network`)
    watching      what goes over a trainer's connections
    page          draws what was found last into docs/benchmarks-results.md
    recovery      how long a job stands still when something dies (`recovery_*`)
"""

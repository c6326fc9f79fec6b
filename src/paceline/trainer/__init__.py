"""Room 3: the user's side.

Its inside, from what the user holds down to what travels::

    session          what `paceline.connect` returns; seating: its place in a trainer
    profiling        a few steps of one trainer under `torch.profiler`
    share/           a model becomes a part of the job
    tables/          what `Session.table` returns
    group/           one trainer of several processes
    evaluations      metrics and predictions of a session
    seat, membership   what a session asks of its trainer; a process as a member of the job
    evaluator        tasks that do not train; metric_states, predictions: what they give
    loop/, peers/    leases in, batches out; trainer to trainer
    engine/          runs the protocol together with the numbers of the parts
    tensors/, rows/  dense and sparse numbers: gradients out, values in
    client/          carries questions over connections
    protocol/        all decisions, pure; holdings/: the leases and parts they are about
    model/           what the script's model and optimizer are
    encoding/        what travels as bytes
    acts, verdicts   words: what a trainer asks for, and what it is told to do next

A sub-room knows those below it, by their faces (`tests/architecture/test_rooms.py`).
"""

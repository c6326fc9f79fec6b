"""What must survive: the journal, the files of cuts, and the manifest that commits them.

::

    journal.sqlite                     outcomes since the last cut, one chain of records
    checkpoints/cut-000012-t3/
        server-0.safetensors           blocks and rows of one server, with their marks
        server-1.safetensors
        manifest.json                  written last: a cut exists if and only if this does
    checkpoints/claims/run-000003.json whose the place is: one job's, and its newest run's
    checkpoints/values/...             what evaluations came to, by content, named by cuts

::

    export, listing    a model taken out of a cut; how cuts look
    cuts/              what they hold, which is whole, which may go, whose they are
    tensors            named tensors as files of a cut: the only module that imports torch
    journal            on SQLite
    blobs/             files of bytes in a folder or an object store

All waits are for storage; nothing here takes a lock on behalf of another module, and
nothing is decided.
"""

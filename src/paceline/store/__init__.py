"""What must survive: the journal, the files of cuts, and the manifest that commits them.

::

    journal.sqlite                     outcomes since the last cut, one chain of records
    checkpoints/cut-000012-t3/
        server-0.safetensors           blocks and rows of one server, with their marks
        server-1.safetensors
        manifest.json                  written last: a cut exists if and only if this does
    checkpoints/claims/run-000003.json whose the place is: one job's, and its newest run's
    checkpoints/values/...             what evaluations came to, by content, named by cuts

`journal`, `blobs` and `values` know bytes, `claims` and `ownership` whose a place and a
cut are, `manifest` and `retention` know cuts, `shares` what lies in a server's file,
`export` how a model is taken out of it. `tensors` knows torch and is the only module here
that imports it: the coordinator starts without. All waits are for storage; nothing here
takes a lock on behalf of another module, and nothing is decided.
"""

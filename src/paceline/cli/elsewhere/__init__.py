"""Commands about other machines, and to make one ready: a file for each.

::

    host      paceline host, role: this machine in a job that another one leads
    doctor    paceline doctor: what would go wrong between machines
    manifests paceline manifests k8s, jobset: what Kubernetes is given
    script    paceline script slurm: what is submitted to a batch system
    warm      paceline warm: the row kernels, compiled before a job waits for it
"""

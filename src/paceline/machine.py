"""What this machine is called in the job.

Reads the environment: ``PACELINE_HOST``, which an agent sets for its processes, and what
SLURM calls the machine, in a job of SLURM's.
"""

import os
import socket

HOST = "PACELINE_HOST"
SLURM_NAME = "SLURMD_NODENAME"


def machine_name() -> str:
    """The name that its agent has given to it, or SLURM, or else its own."""
    environ = os.environ
    return environ.get(HOST) or environ.get(SLURM_NAME) or socket.gethostname()

"""What this machine is called in the job.

Reads the environment: ``PACELINE_HOST``, which an agent sets for its processes.
"""

import os
import socket

HOST = "PACELINE_HOST"


def machine_name() -> str:
    """The name that its agent has given to it, or else its own."""
    return os.environ.get(HOST) or socket.gethostname()

"""The command that goes on with a run.

Pure.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path


def resume_command(job_dir: Path, script: str, arguments: Sequence[str] = ()) -> str:
    """As a user types it; options that are left out are as they were.

    Args:
        job_dir: the folder of the job.
        script: what trainers run.
        arguments: its own.
    """
    words = ["paceline", "run", "--resume", "--job-dir", str(job_dir), script, *arguments]
    return shlex.join(words)

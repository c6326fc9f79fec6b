"""The command that goes on with a run.

Pure.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path


def resume_command(
    job_dir: Path, script: str, arguments: Sequence[str] = (), plugins: Sequence[str] = ()
) -> str:
    """As a user types it; options that are left out are as they were.

    Args:
        job_dir: the folder of the job.
        script: what trainers run: a path, or ``-m`` and the name of a module.
        arguments: its own.
        plugins: of the job; they are named anew by each run.
    """
    named = [word for plugin in plugins for word in ("--plugin", plugin)]
    ran = script.split(" ", 1) if script.startswith("-m ") else [script]
    words = ["--resume", "--job-dir", str(job_dir), *named, *ran, *arguments]
    return shlex.join(["paceline", "run", *words])

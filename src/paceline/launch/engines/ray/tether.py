"""``python -m paceline.launch.engines.ray.tether PID ...``: paceline, bound to its parent.

The kernel ends an agent when the actor's process is gone, however it went: Ray ends what is
in the group of that process alone. What is asked of the kernel survives ``exec``. It is
done here, since nothing may run between ``fork`` and ``exec`` in a process with threads.

Waits: for nothing.
"""

import os
import signal
import sys

from paceline.launch.processes import die_with_parent


def main(words: list[str]) -> None:
    """Become ``paceline`` with these words, of which the first is the parent's number."""
    parent, *command = words
    die_with_parent(int(parent), signal.SIGTERM)
    program = [sys.executable, "-m", "paceline.cli.main", *command]
    os.execv(sys.executable, program)


if __name__ == "__main__":
    main(sys.argv[1:])

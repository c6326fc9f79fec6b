"""What all that watch brought machines have: who is gone, and what that is to the job.

Waits: for nothing; a thread, for what an engine says of its machines.
"""

import threading
from abc import ABC, abstractmethod

from paceline.errors import JobFailed
from paceline.launch.engines.engine import BroughtJob


class Watching(ABC):
    """Machines of a job that a thread watches, once it is started: see `Brought`."""

    def __init__(self, job: BroughtJob, machines: int, told: str) -> None:
        """So many are to come; they are ``told`` as machines, or as hosts."""
        self._job, self._told = job, told
        self._spare = max(0, 1 + machines - job.begins_with)
        self._ended: list[str] = []
        self._num_gone = 0
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="paceline-bringing", daemon=True
        )

    def check(self) -> None:
        """See `Brought`."""
        if self._num_gone > self._spare:
            raise JobFailed(
                f"the job cannot begin with as many {self._told} as it is to: "
                f"{self._ended[-1]}"
            )

    @property
    def ended(self) -> list[str]:
        """See `Brought`."""
        return list(self._ended)

    def expect_end(self) -> None:
        """See `Brought`."""
        self._over.set()

    @abstractmethod
    def _watch(self) -> None:
        """The thread's: until the job is over."""

    def _gone(self, shown: str, kept: str = "", count: int = 1) -> None:
        """So many are not started again: what is shown, and what is kept if it is more."""
        self._job.say(shown)
        self._ended.append(kept or shown)
        self._num_gone += count

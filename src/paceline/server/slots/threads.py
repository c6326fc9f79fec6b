"""Threads that run slots beside the one that a round has come to.

A round changes all blocks of a part at once, and whoever waits for it computes nothing
meanwhile: there is a core for every block. A slot that somebody is at is passed over, so
that two who run the same slots share them.

Waits: its own threads, for work. Any thread may call.
"""

import os
import queue
import threading
from typing import Final, final

from paceline.server.slots.turns import Action

# More read memory no faster; and they are idle nearly always.
MOST_THREADS: Final = 3
# Waking a thread costs 0.05 ms: as long as a step of Adam over so much takes.
LEAST_BYTES: Final = 1 << 19

_CLOSED: Final = None


@final
class SlotRunners:
    """A few threads; none before `start`."""

    def __init__(self, server: str, num_threads: int | None = None) -> None:
        """Be idle; by default there is a thread for every core but the caller's."""
        self._work: queue.SimpleQueue[Action | None] = queue.SimpleQueue()
        if num_threads is None:
            num_threads = min(MOST_THREADS, len(os.sched_getaffinity(0)) - 1)
        self._threads = [
            threading.Thread(target=self._serve, name=f"{server}-runner-{n}", daemon=True)
            for n in range(num_threads)
        ]
        self._is_open = False

    def start(self) -> None:
        """Take work from now on."""
        self._is_open = True
        for thread in self._threads:
            thread.start()

    def run(self, run: Action, num_bytes: int) -> None:
        """Run what `Slots.line_up` has returned, together if so many bytes pay.

        When this returns, others may still be at some of the slots.
        """
        if self._is_open and num_bytes >= LEAST_BYTES:
            # Who has not taken the last one yet is too busy for this one.
            for _ in range(len(self._threads) - self._work.qsize()):
                self._work.put(run)
        run()

    def close(self, timeout_s: float) -> None:
        """End the threads."""
        if not self._is_open:
            return
        self._is_open = False
        for _ in self._threads:
            self._work.put(_CLOSED)
        for thread in self._threads:
            thread.join(timeout_s)

    def _serve(self) -> None:
        while (run := self._work.get()) is not _CLOSED:
            run()

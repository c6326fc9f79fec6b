"""Signs of life for the locks that a trainer holds, while its script computes.

A server lets go of a lock that it has not heard of for its lease. So a thread says now and
then which locks are held, as long as any is. It is frozen with its process: what a frozen
trainer had locked goes to others. It has a life of its own beside the beats, since a beat
may wait for a coordinator that is away.

Waits: for servers, and between signs.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, final

from paceline.messages.locking import KeepLocks
from paceline.timing import Repeating

PERIOD_S: Final = 0.5  # between signs: at most a quarter of a lease

_log = logging.getLogger("paceline.trainer")


class HeldLock(NamedTuple):
    """A lock that is held on some servers, or waited for."""

    incarnation: int
    timeline: int
    part: int
    number: int
    servers: tuple[str, ...]


@final
class LockKeeper:
    """Keeps the locks of one trainer until it is stopped."""

    def __init__(self, tell: Callable[[str, KeepLocks], object]) -> None:
        """Keep none; ``tell`` sends a server a message, and may fail silently."""
        self._tell = tell
        self._lock = threading.Lock()  # guards the two fields below
        self._held: list[HeldLock] = []
        self._thread: Repeating | None = None
        self._before: set[HeldLock] = set()

    def keep(self, held: HeldLock) -> None:
        """From here on servers hear of this lock."""
        with self._lock:
            self._held.append(held)
            if self._thread is None:
                self._thread = Repeating("trainer-locks", PERIOD_S, self._look)
                self._thread.start()

    def let_go(self, held: HeldLock) -> None:
        """This lock is held no more."""
        with self._lock:
            self._held.remove(held)

    def stop(self, timeout_s: float) -> None:
        """End the thread; may be repeated."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.stop(timeout_s)

    def _look(self) -> None:
        with self._lock:
            held = set(self._held)
        kept = held & self._before  # what is younger than a period needs no sign
        self._before = held
        for server in sorted({server for one in kept for server in one.servers}):
            for one in kept:
                if server in one.servers:
                    self._say(server, one)

    def _say(self, server: str, held: HeldLock) -> None:
        try:
            self._tell(
                server,
                KeepLocks(
                    incarnation=held.incarnation,
                    timeline=held.timeline,
                    numbers={held.part: (held.number,)},
                ),
            )
        except Exception:  # noqa: BLE001  (no surprise may end the signs of life)
            _log.debug("no answer to a sign of life for a lock", exc_info=True)
